#pragma once

#include <filesystem>
#include <vector>

#include "job/training_job.h"
#include "run/events.h"

namespace lockstep::lab {

struct TrialOptions {
  /// The run is written here, and what it prints to a file of the same name with ".log".
  std::filesystem::path out;
  /// How many of this process's processors it may use, the first ones; 0: all.
  int processors = 0;
  double deadline_seconds = 600;
};

/// Runs a training in a process of its own, which starts workers as `lockstep train` does, and
/// returns its events. Throws BadInput or Error with the run's message if it fails, and Timeout,
/// after it has been ended, if it takes longer than the deadline. Call it before this process has
/// threads.
std::vector<run::Json> run_trial(job::TrainingJob job, const TrialOptions& options);

}  // namespace lockstep::lab
