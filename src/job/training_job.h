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

/// A recipe, and how it is to be carried out: by which workers, how they are connected, where the
/// run goes.
struct TrainingJob {
  Recipe recipe;
  /// Why the result will not be the recipe's alone, if so.
  std::vector<std::string> departures = {};
  std::vector<std::string> plugins = {};  ///< libraries to load
  run::FolderOptions folder = {};
  launch::PlacementFlags placement = {};
  ElasticFlags elastic = {};
  std::string transport = "auto";
  std::string algorithm = "auto";
  double silence_seconds = launch::ConnectOptions{}.silence_seconds;
  int64_t stop_at_step = std::numeric_limits<int64_t>::max();
  /// Whether algorithms are allowed whose result depends on the number of workers.
  enum class Additions { canonical, any } additions = Additions::canonical;
  enum class Messages { usual, verbose } messages = Messages::usual;
};

struct JobResult {
  int exit_code = 0;
  /// What the run came to, where this process is the one to show it.
  std::optional<run::Outcome> outcome = {};
  /// A forked worker ends by launch::end_worker.
  enum class Process { started_by_user, forked_worker } process = Process::started_by_user;
};

/// Carries the job out: checks it, loads data and plugins, starts workers where no other launcher
/// has, and trains. Returns here when all workers have ended, and in each forked worker when that
/// one has. Failures of workers are told on stderr and added to the run's events. Throws BadInput.
JobResult run_training(TrainingJob job);

/// Tells a failure in the run's events, and on stderr how to go on where there is a checkpoint.
/// Does nothing for a run that has no folder yet ("").
void tell_failure(const std::string& out, const std::string& message,
                  const std::vector<std::string>& plugins);

/// "go on with: ...", on stderr.
void tell_how_to_resume(const std::string& out, const std::vector<std::string>& plugins);

}  // namespace lockstep::job
