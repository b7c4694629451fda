#pragma once

#include <string>
#include <vector>

#include "cli/train_flags.h"
#include "recipe/recipe.h"

namespace lockstep::cli {

/// Whether the run's folder is on this host: the process that writes it has it, others may not.
enum class FolderAccess { here, elsewhere };

struct RequestedRecipe {
  Recipe recipe;
  /// With --resume --force: how it differs from the recipe that the run started with.
  std::vector<std::string> departures = {};
  /// With --resume: the run gets more epochs, steps or patience than it started with.
  bool is_longer = false;
};

/// The recipe that the flags name, or that of the resumed run, with the changes from flags. Throws
/// BadInput; also when a run would be resumed with a changed recipe and without --force. A longer
/// run is allowed without it if its first steps are those of the run so far.
RequestedRecipe requested_recipe(const TrainFlags& flags, FolderAccess record);
/// The same with other values of the keys that neither the recipe nor the flags give.
RequestedRecipe requested_recipe(const TrainFlags& flags, FolderAccess record,
                                 const Recipe& defaults);

/// Whether a flag or a --set gives this key, such as "train.batch".
bool is_given(const TrainFlags& flags, const std::string& key);

/// The name of a run without --out: that of the recipe file, or DATA-MODEL.
std::string run_name(const TrainFlags& flags, const Recipe& recipe);

}  // namespace lockstep::cli
