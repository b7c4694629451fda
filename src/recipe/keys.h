#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "recipe/recipe.h"

namespace lockstep {

/// Where a key's value lives in a Recipe.
using KeyTarget =
    std::variant<bool*, int64_t*, double*, std::string*, std::vector<double>*, data::Layout*>;

/// One key of a recipe: its name, where its value lives, what it means and what it may be.
struct Key {
  std::string_view name;
  KeyTarget target;
  std::string_view meaning;
  /// The range of a number.
  double least = 0;
  double most = 0;
  /// Keys that only say how a run is watched, not what comes out of it.
  enum class Role { result, record } role = Role::result;
  /// The texts it may be; empty: any.
  std::vector<std::string> choices = {};
};

/// Every key, section by section, bound to `recipe`.
std::vector<Key> keys(Recipe& recipe);

/// "channels_first", "channels_last": in the order of data::Layout.
const std::vector<std::string>& layout_names();

/// The value as TOML: 0.1, "sgd", [80.0, 120.0].
std::string value_text(const Key& key);

}  // namespace lockstep
