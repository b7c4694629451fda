#include "recipe/recipe.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/atomic_file.h"
#include "base/nearest.h"
#include "lockstep/error.h"
#include "recipe/keys.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse(const Key& key, std::string_view origin, const toml::node& node,
                         std::string_view expected) {
  std::ostringstream found;
  found << toml::node_view<const toml::node>(node);
  throw BadInput("{}{} = {}: expected {}", origin, key.name, found.str(), expected);
}

template <typename T>
T value_or_refuse(const Key& key, std::string_view origin, const toml::node& node,
                  std::string_view expected) {
  if (const auto value = node.value<T>()) return *value;
  refuse(key, origin, node, expected);
}

void assign(const Key& key, const toml::node& node, std::string_view origin) {
  const auto take = [&]<typename T>(T* target) {
    if constexpr (std::is_same_v<T, bool>) {
      *target = value_or_refuse<bool>(key, origin, node, "true or false");
    } else if constexpr (std::is_same_v<T, int64_t>) {
      if (!node.is_integer()) refuse(key, origin, node, "a whole number");
      *target = *node.value<int64_t>();
    } else if constexpr (std::is_same_v<T, double>) {
      *target = value_or_refuse<double>(key, origin, node, "a number");
    } else if constexpr (std::is_same_v<T, std::string>) {
      *target = value_or_refuse<std::string>(key, origin, node, "a text in quotes");
    } else if constexpr (std::is_same_v<T, data::Layout>) {
      const auto name = value_or_refuse<std::string>(key, origin, node, "a text in quotes");
      const auto& names = layout_names();
      const auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end())
        refuse(key, origin, node, fmt::format("{}", fmt::join(names, " or ")));
      *target = static_cast<data::Layout>(found - names.begin());
    } else {
      if (!node.is_array()) refuse(key, origin, node, "a list of numbers, such as [80, 120]");
      target->clear();
      for (const toml::node& element : *node.as_array())
        target->push_back(value_or_refuse<double>(key, origin, element, "a list of numbers"));
    }
  };
  std::visit(take, key.target);
}

std::string section_of(std::string_view name) {
  return std::string(name.substr(0, name.find('.')));
}

// The nearest key; one that differs only in its section is nearest of all.
std::string unknown_key(std::string_view name, const std::vector<Key>& known) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  std::vector<std::string> names;
  for (const Key& key : known) {
    names.emplace_back(key.name);
    if (key.name.substr(key.name.find('.') + 1) == last)
      return fmt::format("unknown key '{}' (did you mean '{}'?)", name, key.name);
  }
  return fmt::format("unknown key '{}'{}", name, did_you_mean(name, names));
}

std::string unknown_section(std::string_view name, const std::vector<Key>& known) {
  std::vector<std::string> sections;
  for (const Key& key : known) sections.push_back(section_of(key.name));
  return fmt::format("unknown section [{}]{}", name, did_you_mean(name, sections));
}

bool has_section(const std::vector<Key>& known, std::string_view name) {
  return std::any_of(known.begin(), known.end(),
                     [&](const Key& key) { return section_of(key.name) == name; });
}

const Key* find(const std::vector<Key>& known, std::string_view name) {
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const Key& key) { return key.name == name; });
  return found == known.end() ? nullptr : &*found;
}

std::string position(const std::filesystem::path& path, const toml::source_region& source) {
  return fmt::format("{}:{}: ", path.string(), source.begin.line);
}

void check_range(const Key& key, double value, std::string_view origin) {
  if (value >= key.least && value <= key.most) return;
  throw BadInput("{}{} = {}: expected {}", origin, key.name, value_text(key),
                 value > key.most ? fmt::format("at most {}", key.most)
                                  : fmt::format("at least {}", key.least));
}

bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

void check(const Key& key, std::string_view origin) {
  const auto look = [&]<typename T>(T* target) {
    if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
      check_range(key, static_cast<double>(*target), origin);
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      for (const double number : *target) check_range(key, number, origin);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!is_utf8(*target))
        throw BadInput("{}{} = {}: is not UTF-8, so a recipe cannot hold it", origin, key.name,
                       value_text(key));
      const auto& choices = key.choices;
      if (!choices.empty() && std::find(choices.begin(), choices.end(), *target) == choices.end())
        throw BadInput("{}{} = \"{}\": no such choice{}; there are: {}", origin, key.name, *target,
                       did_you_mean(*target, choices), fmt::join(choices, ", "));
    }
  };
  std::visit(look, key.target);
}

// A recipe that is not there may be one that is nearly there.
void require_recipe_file(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path))
    throw BadInput(
        "{}: is a folder; a recipe is a TOML file (your own data is given as --data "
        "npy:{} or folder:{})",
        path.string(), path.string(), path.string());
  if (std::filesystem::is_regular_file(path)) return;
  if (std::filesystem::exists(path)) throw BadInput("{}: is not a regular file", path.string());
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  std::vector<std::string> names;
  if (std::filesystem::is_directory(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      names.push_back(entry.path().filename().string());
  throw BadInput("{}: there is no such file{}", path.string(),
                 did_you_mean(path.filename().string(), names));
}

// A table with the one key "value". Texts go without quotes here, as a shell hands them over.
toml::table parse_value(const Key& key, std::string_view value) {
  const toml::table as_text{{"value", std::string(value)}};
  if (std::holds_alternative<std::string*>(key.target) ||
      std::holds_alternative<data::Layout*>(key.target))
    return as_text;
  try {
    toml::table parsed = toml::parse(fmt::format("value = {}", value));
    return parsed.size() == 1 ? parsed : as_text;
  } catch (const toml::parse_error&) {
    return as_text;  // which a number or a switch refuses, saying what it expected
  }
}

}  // namespace

Recipe read_recipe(const std::filesystem::path& path) {
  require_recipe_file(path);
  const std::string text = read_file(path);
  toml::table file;
  try {
    file = toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw BadInput(
        "{}{}; text stands in quotes (name = \"mlp\"), numbers have a point (0.05), "
        "switches are true or false",
        position(path, error.source()), error.description());
  }
  Recipe recipe;
  const std::vector<Key> known = keys(recipe);
  for (const auto& [section_name, section] : file) {
    if (!section.is_table())
      throw BadInput("{}'{}' stands outside a section; {}", position(path, section.source()),
                     section_name.str(), unknown_key(section_name.str(), known));
    if (!has_section(known, section_name.str()))
      throw BadInput("{}{}", position(path, section.source()),
                     unknown_section(section_name.str(), known));
    for (const auto& [name, node] : *section.as_table()) {
      const std::string full_name = fmt::format("{}.{}", section_name.str(), name.str());
      const std::string origin = position(path, node.source());
      const Key* key = find(known, full_name);
      if (key == nullptr) throw BadInput("{}{}", origin, unknown_key(full_name, known));
      assign(*key, node, origin);
      check(*key, origin);
    }
  }
  return recipe;
}

void set(Recipe& recipe, std::string_view name, std::string_view value) {
  const std::vector<Key> known = keys(recipe);
  const Key* key = find(known, name);
  if (key == nullptr) throw BadInput("{}", unknown_key(name, known));
  assign(*key, *parse_value(*key, value).get("value"), "");
  check(*key, "");
}

void validate(const Recipe& recipe) {
  Recipe copy = recipe;
  for (const Key& key : keys(copy)) check(key, "");
  if (recipe.schedule.name == "step" && recipe.schedule.milestones.empty())
    throw BadInput("schedule.name = \"step\": needs schedule.milestones, such as [80, 120]");
  if (recipe.train.batch % shards_of(recipe) != 0)
    throw BadInput("train.shards = {}: train.batch = {} cannot be cut into so many equal slices",
                   recipe.train.shards, recipe.train.batch);
}

int64_t shards_of(const Recipe& recipe) {
  if (recipe.train.shards > 0) return recipe.train.shards;
  int64_t shards = 8;
  while (recipe.train.batch % shards != 0) --shards;
  return shards;
}

std::vector<std::string> without_effect(const Recipe& recipe) {
  const auto& schedule = recipe.schedule;
  std::vector<std::string> found;
  if (schedule.name == "one_cycle" && schedule.warmup_epochs > 0)
    found.emplace_back("schedule.warmup_epochs: one_cycle has a rise of its own");
  if (schedule.name != "step" && !schedule.milestones.empty())
    found.push_back(fmt::format("schedule.milestones: {} has none", schedule.name));
  if (schedule.name != "cosine" && schedule.final_fraction > 0)
    found.push_back(fmt::format("schedule.final_fraction: {} has none", schedule.name));
  if (recipe.optimizer.name == "adamw" && recipe.optimizer.nesterov)
    found.push_back(fmt::format("optimizer.nesterov: {} has none", recipe.optimizer.name));
  return found;
}

std::string to_toml(const Recipe& recipe) {
  Recipe copy = recipe;
  std::string toml;
  std::string_view section;
  for (const Key& key : keys(copy)) {
    const std::string_view in = key.name.substr(0, key.name.find('.'));
    if (in != section) toml += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", in);
    section = in;
    const std::string line =
        fmt::format("{} = {}", key.name.substr(in.size() + 1), value_text(key));
    toml += fmt::format("{:<36} # {}\n", line, key.meaning);
  }
  return toml;
}

std::vector<std::pair<std::string, std::string>> result_values(const Recipe& recipe) {
  Recipe copy = recipe;
  std::vector<std::pair<std::string, std::string>> values;
  for (const Key& key : keys(copy))
    if (key.role == Key::Role::result) values.emplace_back(key.name, value_text(key));
  return values;
}

std::vector<std::string> differences(const Recipe& now, const Recipe& before) {
  const auto ours = result_values(now);
  const auto theirs = result_values(before);
  std::vector<std::string> found;
  for (size_t i = 0; i < ours.size(); ++i)
    if (ours[i] != theirs[i])
      found.push_back(
          fmt::format("{}: {}, was {}", ours[i].first, ours[i].second, theirs[i].second));
  return found;
}

}  // namespace lockstep
