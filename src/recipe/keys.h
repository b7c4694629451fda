#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/toml_value.h"
#include "recipe/recipe.h"

namespace lockstep {

/// Where a key's value is stored in a Recipe.
using KeyTarget = std::variant<bool*, int64_t*, double*, std::string*, std::vector<double>*>;

/// One key of a recipe: its name, where its value is stored, its meaning and its allowed values.
struct Key {
  std::string_view name;
  KeyTarget target;
  std::string meaning;
  /// The range of a number, or of the numbers of a list, which must be increasing.
  double least = 0;
  double most = 0;
  /// `record` keys affect only what a run logs and saves, not its result.
  enum class Role { result, record } role = Role::result;
  /// Allowed texts; empty: any.
  std::vector<std::string> choices = {};

  /// Some keys have an effect only where another key, such as optimizer.name, is one of `users`.
  struct Use {
    const std::string* choice = nullptr;  ///< the other key's value; nullptr: always used
    std::vector<std::string> users = {};
  } use = {};

  /// Whether a text may also be a whole number in the range: "2", or 2 in a recipe.
  bool number_too = false;

  std::string_view section() const { return name.substr(0, name.find('.')); }
  std::string_view last() const { return name.substr(name.find('.') + 1); }
};

/// Every key, section by section, bound to `recipe`.
std::vector<Key> keys(Recipe& recipe);

/// The value as TOML: 0.1, "sgd", [80.0, 120.0].
std::string value_text(const Key& key);

/// A table of options whose keys are defined by the data set, model or objective that reads them.
struct OptionTable {
  std::string_view name;  ///< "model.options"
  std::string_view of;    ///< "a model"
  Options* options;

  std::string_view section() const { return name.substr(0, name.find('.')); }
};

/// Every such table, in the order of their sections, bound to `recipe`.
std::vector<OptionTable> option_tables(Recipe& recipe);

/// Each throws BadInput for an invalid value; the message begins with `origin` ("mine.toml:3: ").
void check(const Key& key, std::string_view origin);
void check_option(const OptionTable& table, std::string_view key, const TomlValue& value,
                  std::string_view origin);

}  // namespace lockstep
