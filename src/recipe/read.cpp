#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "base/atomic_file.h"
#include "base/nearest.h"
#include "lockstep/error.h"
#include "recipe/keys.h"

namespace lockstep {
namespace {

// A value as found in a file or flag; `value` is empty if recipes have no such type.
struct WrittenValue {
  std::optional<TomlValue> value;
  std::string text;
};

WrittenValue written(const toml::node& node) {
  if (node.is_table()) return {std::nullopt, "{...}"};
  std::ostringstream text;
  text << toml::node_view<const toml::node>(node);
  return {toml_value(node), text.str()};
}

WrittenValue written(TomlValue value) {
  std::string text = toml_text(value);
  return {std::move(value), std::move(text)};
}

constexpr const char* expected(bool*) {
  return "true or false";
}
constexpr const char* expected(int64_t*) {
  return "a whole number";
}
constexpr const char* expected(double*) {
  return "a number";
}
constexpr const char* expected(std::string*) {
  return "a text in quotes";
}
constexpr const char* expected(std::vector<double>*) {
  return "a list of numbers, such as [80, 120]";
}

void assign(const Key& key, const WrittenValue& written, std::string_view origin) {
  const auto take = [&]<typename T>(T* target) {
    const TomlValue* const value = written.value ? &*written.value : nullptr;
    if constexpr (std::is_same_v<T, double>)
      if (const auto* whole = std::get_if<int64_t>(value)) {
        *target = static_cast<double>(*whole);
        return;
      }
    if constexpr (std::is_same_v<T, std::string>)
      if (const auto* whole = std::get_if<int64_t>(value); whole != nullptr && key.number_too) {
        *target = fmt::format("{}", *whole);
        return;
      }
    const T* const found = std::get_if<T>(value);
    if (found == nullptr)
      throw BadInput("{}{} = {}: expected {}", origin, key.name, written.text, expected(target));
    *target = *found;
  };
  std::visit(take, key.target);
  check(key, origin);
}

void assign_option(const OptionTable& table, std::string_view key, const WrittenValue& written,
                   std::string_view origin) {
  if (!written.value)
    throw BadInput(
        "{}{}.{} = {}: expected true or false, a finite number, a text in quotes or a list of "
        "numbers",
        origin, table.name, key, written.text);
  check_option(table, key, *written.value, origin);
  auto values = table.options->values();
  values[std::string(key)] = toml_text(*written.value);
  *table.options = Options(std::move(values), std::string(table.name));
}

// All keys and option tables of a recipe.
struct Known {
  explicit Known(Recipe& recipe) : keys(lockstep::keys(recipe)), tables(option_tables(recipe)) {}

  const Key* key(std::string_view name) const {
    const auto found =
        std::find_if(keys.begin(), keys.end(), [&](const Key& key) { return key.name == name; });
    return found == keys.end() ? nullptr : &*found;
  }
  const OptionTable* table(std::string_view name) const {
    const auto found = std::find_if(tables.begin(), tables.end(),
                                    [&](const OptionTable& table) { return table.name == name; });
    return found == tables.end() ? nullptr : &*found;
  }
  bool has_section(std::string_view name) const {
    return std::any_of(keys.begin(), keys.end(),
                       [&](const Key& key) { return key.section() == name; });
  }

  std::vector<Key> keys;
  std::vector<OptionTable> tables;
};

// A name that is close to no key may be an option.
std::string or_an_option(std::string_view name, const std::vector<OptionTable>& tables) {
  const std::string_view section = name.substr(0, name.find('.'));
  const std::string_view last = name.substr(name.rfind('.') + 1);
  std::vector<std::string> all;
  for (const OptionTable& table : tables) {
    if (table.section() == section)
      return fmt::format(" (did you mean '{}.{}'? Options of {} belong in [{}])", table.name, last,
                         table.of, table.name);
    all.push_back(fmt::format("of {} in [{}]", table.of, table.name));
  }
  return fmt::format("; options belong in their own tables: {}", fmt::join(all, ", "));
}

// Suggests the nearest key; one that differs only in its section comes first. The word after the
// section must be close by itself, since equal sections make any two keys look alike.
std::string unknown_key(std::string_view name, const Known& known) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  std::vector<std::string> names;
  for (const Key& key : known.keys) {
    if (key.last() == last)
      return fmt::format("unknown key '{}' (did you mean '{}'?)", name, key.name);
    const std::string candidate(key.last());
    if (!did_you_mean(last, {&candidate, 1}).empty()) names.emplace_back(key.name);
  }
  const std::string nearest = did_you_mean(name, names);
  return fmt::format("unknown key '{}'{}", name,
                     nearest.empty() ? or_an_option(name, known.tables) : nearest);
}

std::string unknown_section(std::string_view name, const Known& known) {
  std::vector<std::string> sections;
  for (const Key& key : known.keys) sections.emplace_back(key.section());
  return fmt::format("unknown section [{}]{}", name, did_you_mean(name, sections));
}

std::string position(const std::filesystem::path& path, const toml::source_region& source) {
  return fmt::format("{}:{}: ", path.string(), source.begin.line);
}

// Suggests a file with a similar name if there is no such file.
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
  throw BadInput("{}: no such file{}", path.string(),
                 did_you_mean(path.filename().string(), names));
}

toml::table parse_file(const std::filesystem::path& path) {
  require_recipe_file(path);
  const std::string text = read_file(path);
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw BadInput(
        "{}{}; write text in quotes (name = \"mlp\"), fractions with a point (0.05), "
        "switches as true or false",
        position(path, error.source()), error.description());
  }
}

void read_options(const OptionTable& table, const toml::node& node,
                  const std::filesystem::path& path) {
  if (!node.is_table())
    throw BadInput("{}{} = {}: expected a section [{}] with an option on each line",
                   position(path, node.source()), table.name, written(node).text, table.name);
  for (const auto& [key, value] : *node.as_table())
    assign_option(table, key.str(), written(value), position(path, value.source()));
}

}  // namespace

Recipe read_recipe(const std::filesystem::path& path, Recipe defaults) {
  const toml::table file = parse_file(path);
  Recipe recipe = std::move(defaults);
  const Known known(recipe);
  for (const auto& [section_name, section] : file) {
    if (!section.is_table())
      throw BadInput("{}'{}' is outside a section; {}", position(path, section.source()),
                     section_name.str(), unknown_key(section_name.str(), known));
    if (!known.has_section(section_name.str()))
      throw BadInput("{}{}", position(path, section.source()),
                     unknown_section(section_name.str(), known));
    for (const auto& [key_name, node] : *section.as_table()) {
      const std::string name = fmt::format("{}.{}", section_name.str(), key_name.str());
      const std::string origin = position(path, node.source());
      if (const Key* key = known.key(name))
        assign(*key, written(node), origin);
      else if (const OptionTable* table = known.table(name))
        read_options(*table, node, path);
      else
        throw BadInput("{}{}", origin, unknown_key(name, known));
    }
  }
  return recipe;
}

// Texts are given without quotes, because a shell removes them.
void set(Recipe& recipe, std::string_view name, std::string_view value) {
  const Known known(recipe);
  if (const Key* key = known.key(name)) {
    const bool is_text = std::holds_alternative<std::string*>(key->target);
    assign(*key, written(is_text ? TomlValue(std::string(value)) : toml_value_or_text(value)), "");
    return;
  }
  const size_t dot = std::min(name.find('.', name.find('.') + 1), name.size());
  const OptionTable* const table = known.table(name.substr(0, dot));
  if (table == nullptr) throw BadInput("{}", unknown_key(name, known));
  if (dot == name.size())
    throw BadInput("'{}' is a section; set one of its options, such as {}.width=64", name, name);
  assign_option(*table, name.substr(dot + 1), written(toml_value_or_text(value)), "");
}

}  // namespace lockstep
