#pragma once

#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace lockstep::cli {

/// Applies `--set KEY=VALUE`s in their order. Throws BadInput that begins with the one at fault.
void apply_settings(Recipe& recipe, const std::vector<std::string>& settings);

}  // namespace lockstep::cli
