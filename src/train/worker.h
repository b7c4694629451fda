#pragma once

#include <optional>
#include <string>
#include <vector>

#include "elastic/member.h"
#include "launch/group.h"
#include "launch/job.h"
#include "recipe/recipe.h"
#include "run/outcome.h"
#include "run/shared_folder.h"
#include "train/trainer.h"

namespace lockstep::train {

/// What one worker of a training job does.
struct WorkerTask {
  Recipe recipe;
  std::shared_ptr<const data::TrainingData> data;
  launch::Job job;
  launch::GroupOptions group;
  Trainer::Limits limits;
  /// Opened on rank 0, which writes the run's events and draws the progress line; the others say
  /// nothing unless something fails.
  run::SharedFolder* folder = nullptr;
  /// The folder this worker was asked for, "" where none was: rank 0's counts.
  std::string asked_out;
  /// Why the result will not be the recipe's alone, if so.
  std::vector<std::string> departures = {};
  /// In an elastic job: where to find its coordinator, which says rank and world size.
  std::optional<elastic::MemberOptions> membership = {};
};

/// Connects with the other workers, trains, and returns how that ended. What this worker throws,
/// the others get as PeerLost.
run::Outcome train_as_worker(const WorkerTask& task);

/// What the command line needs of the library that trains. It is loaded while the program runs:
/// LibTorch takes half a second to load, which commands that do not train need not wait for.
struct TrainerLibrary {
  run::Outcome (*train_as_worker)(const WorkerTask& task);
  /// Throws BadInput; see train/plugins.h.
  void (*register_linked_plugins)();
  void (*load_plugin)(const std::string& library);
  /// Throws BadInput for a recipe whose model or objective there is not.
  void (*check_names)(const Recipe& recipe);
  /// A line for each row of a table: "models" or "objectives".
  std::string (*list)(const std::string& table);
};

/// The name of the function in it that returns a const TrainerLibrary*.
inline constexpr const char* kTrainerLibrary = "lockstep_trainer_library";

}  // namespace lockstep::train
