#pragma once

#include <string>
#include <vector>

#include "cli/train_flags.h"
#include "recipe/recipe.h"

namespace lockstep::cli {

/// Who writes a run's folder has it; on other hosts it may be missing.
enum class FolderAccess { here, elsewhere };

struct RequestedRecipe {
  Recipe recipe;
  /// With --resume: how it differs from the one the run began with, which --force allows.
  std::vector<std::string> departures = {};
};

/// The recipe that the flags name, or the one of the run that is resumed, changed as they say.
/// Throws BadInput; also where a run would be resumed by another recipe, without --force.
RequestedRecipe requested_recipe(const TrainFlags& flags, FolderAccess record);

/// What runs without --out are called: the recipe's name, or what they train on what.
std::string run_name(const TrainFlags& flags, const Recipe& recipe);

}  // namespace lockstep::cli
