#include "recipe/recipe.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
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

std::string unknown_key(std::string_view name, const std::vector<Key>& known) {
  std::vector<std::string> names;
  for (const Key& key : known) names.emplace_back(key.name);
  return fmt::format("unknown key '{}'{}", name, did_you_mean(name, names));
}

const Key* find(const std::vector<Key>& known, std::string_view name) {
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const Key& key) { return key.name == name; });
  return found == known.end() ? nullptr : &*found;
}

std::string position(const std::filesystem::path& path, const toml::source_region& source) {
  return fmt::format("{}:{}: ", path.string(), source.begin.line);
}

void check_range(const Key& key, double value) {
  if (std::isfinite(value) && value >= key.least && value <= key.most) return;
  throw BadInput("{} = {}: expected {}", key.name, value_text(key),
                 std::isinf(key.most) ? fmt::format("at least {}", key.least)
                                      : fmt::format("{} to {}", key.least, key.most));
}

}  // namespace

Recipe read_recipe(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  toml::table file;
  try {
    file = toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw BadInput("{}{}", position(path, error.source()), error.description());
  }
  Recipe recipe;
  const std::vector<Key> known = keys(recipe);
  for (const auto& [section_name, section] : file) {
    if (!section.is_table())
      throw BadInput("{}'{}' stands outside a section; {}", position(path, section.source()),
                     section_name.str(), unknown_key(section_name.str(), known));
    for (const auto& [name, node] : *section.as_table()) {
      const std::string full_name = fmt::format("{}.{}", section_name.str(), name.str());
      const std::string origin = position(path, node.source());
      const Key* key = find(known, full_name);
      if (key == nullptr) throw BadInput("{}{}", origin, unknown_key(full_name, known));
      assign(*key, node, origin);
    }
  }
  return recipe;
}

void set(Recipe& recipe, std::string_view name, std::string_view value) {
  const std::vector<Key> known = keys(recipe);
  const Key* key = find(known, name);
  if (key == nullptr) throw BadInput("{}", unknown_key(name, known));
  const bool is_text = std::holds_alternative<std::string*>(key->target) ||
                       std::holds_alternative<data::Layout*>(key->target);
  if (is_text) return assign(*key, toml::value<std::string>(std::string(value)), "");
  try {
    const toml::table parsed = toml::parse(fmt::format("value = {}", value));
    if (parsed.size() != 1) throw BadInput("{}: expected one value", name);
    assign(*key, *parsed.get("value"), "");
  } catch (const toml::parse_error&) {
    assign(*key, toml::value<std::string>(std::string(value)), "");  // refuses it, with the reason
  }
}

void validate(const Recipe& recipe) {
  Recipe copy = recipe;
  for (const Key& key : keys(copy)) {
    if (const auto* number = std::get_if<int64_t*>(&key.target))
      check_range(key, static_cast<double>(**number));
    if (const auto* number = std::get_if<double*>(&key.target)) check_range(key, **number);
    if (const auto* numbers = std::get_if<std::vector<double>*>(&key.target))
      for (const double number : **numbers) check_range(key, number);
  }
  const auto one_of = [](std::string_view key, const std::string& value,
                         const std::vector<std::string>& names) {
    if (std::find(names.begin(), names.end(), value) == names.end())
      throw BadInput("{} = \"{}\": no such thing{}; there are: {}", key, value,
                     did_you_mean(value, names), fmt::join(names, ", "));
  };
  one_of("optimizer.name", recipe.optimizer.name, optim::optimizer_names());
  one_of("schedule.name", recipe.schedule.name, optim::schedule_names());
  if (recipe.schedule.name == "step" && recipe.schedule.milestones.empty())
    throw BadInput("schedule.name = \"step\": needs schedule.milestones, such as [80, 120]");
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

std::vector<std::string> differences(const Recipe& now, const Recipe& before) {
  Recipe now_copy = now;
  Recipe before_copy = before;
  const std::vector<Key> ours = keys(now_copy);
  const std::vector<Key> theirs = keys(before_copy);
  std::vector<std::string> found;
  for (size_t i = 0; i < ours.size(); ++i)
    if (ours[i].role == Key::Role::result && value_text(ours[i]) != value_text(theirs[i]))
      found.push_back(
          fmt::format("{}: {}, was {}", ours[i].name, value_text(ours[i]), value_text(theirs[i])));
  return found;
}

}  // namespace lockstep
