#pragma once

#include <string>
#include <vector>

#include "cli/train_flags.h"
#include "recipe/recipe.h"

namespace lockstep::cli {

/// What the flags ask for, on top of the recipe they name or else of `base`. Throws BadInput.
Recipe recipe_from(const TrainFlags& flags, Recipe base);

/// Who keeps a job's record has the run's folder; on other hosts it may be missing.
enum class Record { here, elsewhere };

struct ResumedRecipe {
  Recipe recipe;
  /// How it differs from the one the run began with, which --force allows.
  std::vector<std::string> departures;
};

/// Throws BadInput where the flags ask for another recipe, without --force.
ResumedRecipe recipe_to_resume(const TrainFlags& flags, Record record);

/// The folder of --resume. Throws BadInput without --out.
std::filesystem::path folder_to_resume(const TrainFlags& flags);

/// What runs without --out are called: the recipe's name, or what they train on what.
std::string run_name(const TrainFlags& flags, const Recipe& recipe);

}  // namespace lockstep::cli
