#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "job/elastic_job.h"
#include "launch/connect.h"
#include "launch/placement.h"
#include "recipe/recipe.h"
#include "run/outcome.h"
#include "run/shared_folder.h"

namespace lockstep::job {

/// A recipe, and how to run it: on which workers, how they are connected, and in which folder.
struct TrainingJob {
  Recipe recipe;
  /// Reasons why the result depends on more than the recipe, if any.
  std::vector<std::string> departures = {};
  std::vector<std::string> plugins = {};  ///< libraries to load
  run::FolderOptions folder = {};
  launch::PlacementFlags placement = {};
  ElasticFlags elastic = {};
  std::string transport = "auto";
  std::string algorithm = "auto";
  double silence_seconds = launch::ConnectOptions{}.silence_seconds;
  int64_t stop_at_step = std::numeric_limits<int64_t>::max();
  /// `any` allows algorithms whose result depends on the number of workers.
  enum class Additions { canonical, any } additions = Additions::canonical;
  enum class Messages { usual, verbose } messages = Messages::usual;
};

struct JobResult {
  int exit_code = 0;
  /// The run's outcome, in the process that prints it.
  std::optional<run::Outcome> outcome = {};
  /// A forked worker must end by launch::end_worker.
  enum class Process { started_by_user, forked_worker } process = Process::started_by_user;
};

/// Runs the job: checks it, loads data and plugins, starts workers unless another launcher did, and
/// trains. Returns in the launcher when all workers have ended, and in each forked worker when its
/// training has. Failures of workers are printed on stderr and added to the run's events. Throws
/// BadInput.
JobResult run_training(TrainingJob job);

/// The flags of a job that a resumed run must be given again: " --load libmine.so --workers 2
/// --elastic".
std::string flags_to_repeat(const Recipe& recipe, const std::vector<std::string>& plugins,
                            const launch::PlacementFlags& placement, const ElasticFlags& elastic);

/// Adds a failure to the run's events and prints how to resume or, without a checkpoint, how to
/// start again. Does nothing for a run without a folder ("").
void tell_failure(const std::string& out, const std::string& message,
                  const std::string& repeated_flags);

/// Prints "resume with: ..." on stderr.
void tell_how_to_resume(const std::string& out, const std::string& repeated_flags);

}  // namespace lockstep::job
