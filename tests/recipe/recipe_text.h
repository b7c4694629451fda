#pragma once

#include <string>

#include "base/atomic_file.h"
#include "expect_error.h"
#include "recipe/recipe.h"
#include "temporary_folder.h"

namespace lockstep {

/// The recipe of a file r.toml with this text.
inline Recipe read_text(const std::string& text) {
  TemporaryFolder folder;
  write_file_atomically(folder / "r.toml", text);
  return read_recipe(folder / "r.toml");
}

/// Why such a recipe is refused.
inline std::string refusal_of(const std::string& text) {
  return message_of<BadInput>([&] { validate(read_text(text)); });
}

/// Why such a setting is refused.
inline std::string refusal_of_setting(const std::string& key, const std::string& value) {
  Recipe recipe;
  return message_of<BadInput>([&] { set(recipe, key, value); });
}

}  // namespace lockstep
