#pragma once

#include <optional>
#include <string>

#include "elastic/coordinator.h"

namespace lockstep::launch {

struct ElasticOptions {
  int places = 1;  ///< number of workers that this host starts with
  /// If this host runs the coordinator: its options. `tell` is overwritten.
  std::optional<elastic::CoordinatorOptions> lead = {};
};

/// How an elastic job ended, as far as this host knows.
struct ElasticEnding {
  int exit_code = 0;
  std::string failure;   ///< why it failed; "" if it finished or was asked to stop
  bool gave_up = false;  ///< stopped with a checkpoint, because too few workers were left
};

/// Result of start_elastic_workers, which returns in the launcher and in each worker.
struct StartedElastic {
  std::optional<int> place;  ///< in a worker: its place among this host's workers
  ElasticEnding ending;      ///< in the launcher
};

/// Forks workers, and replaces each worker that is killed by a signal, until the job ends. Returns
/// in each worker at once, and in the launcher at the end. Call it before any thread is started. A
/// worker must end by `end_worker`.
///
/// On the coordinator's host, the coordinator decides how many workers this host runs and when the
/// job ends; SIGINT and SIGTERM stop the job after the current step. On other hosts the call
/// returns when all workers of the host have ended, and these signals are passed on to the workers.
/// A second signal kills the workers.
StartedElastic start_elastic_workers(const ElasticOptions& options);

}  // namespace lockstep::launch
