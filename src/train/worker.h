#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "elastic/member.h"
#include "launch/group.h"
#include "launch/job.h"
#include "observe/events.h"
#include "recipe/recipe.h"
#include "train/run_folder.h"
#include "train/trainer.h"
#include "train/training_data.h"

namespace lockstep::train {

/// What one worker of a training job does.
struct WorkerTask {
  Recipe recipe;
  std::shared_ptr<const TrainingData> data;
  launch::Job job;
  launch::GroupOptions group;
  Trainer::Limits limits;
  /// Called on rank 0, which keeps the record and draws; the others say nothing unless something
  /// fails.
  std::function<RunFolder()> open_folder;
  /// The folder this worker was asked for, "" where none was: rank 0's counts.
  std::string asked_out;
  /// Why the result will not be the recipe's alone, if so.
  std::vector<std::string> departures = {};
  /// In a job whose workers come and go: where to find it. Rank and world are then told there.
  std::optional<elastic::MemberOptions> membership = {};
};

/// Connects with the others, trains, and returns the last event; "dismissed" with an exit code
/// where workers come and go and this one is needed no longer. What this worker throws is told to
/// all others.
observe::Json train_as_worker(const WorkerTask& task);

/// The same, as it is found in the library `lockstep`: LibTorch takes half a second to load, which
/// commands that do not train need not wait for.
using TrainAsWorker = void (*)(const WorkerTask& task, observe::Json& last);
inline constexpr const char* kTrainAsWorker = "lockstep_train_as_worker";

}  // namespace lockstep::train
