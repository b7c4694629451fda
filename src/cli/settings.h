#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/recipe.h"

namespace lockstep::cli {

/// Sets one key. Throws BadInput that begins with the flag as it was typed.
void apply_setting(Recipe& recipe, const std::string& as_typed, std::string_view key,
                   std::string_view value);

/// Applies `--set KEY=VALUE`s in order. Throws BadInput that begins with the wrong one.
void apply_settings(Recipe& recipe, const std::vector<std::string>& settings);

/// Adds --load, for libraries with plugins.
void add_load_flag(CLI::App& app, std::vector<std::string>& plugins);

}  // namespace lockstep::cli
