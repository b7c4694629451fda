#pragma once

#include <optional>
#include <string>

#include "elastic/coordinator.h"

namespace lockstep::launch {

struct ElasticOptions {
  int places = 1;  ///< workers that this host begins with
  /// Where the job is led from here. `tell` is ours.
  std::optional<elastic::CoordinatorOptions> lead = {};
};

/// How a job ended whose workers came and went, as far as this host knows.
struct ElasticEnding {
  int exit_code = 0;
  std::string failure;   ///< why it did not come to its end; "" where it did or was asked to stop
  bool gave_up = false;  ///< too few workers were left: it was stopped, with a checkpoint
};

/// Returns in the launcher, and in each worker.
struct StartedElastic {
  std::optional<int> place;  ///< in a worker: whose place among this host's it takes
  ElasticEnding ending;      ///< in the launcher
};

/// Forks workers and another one in the place of each that a signal kills, until the job is at its
/// end. Returns in each worker at once, and here at the end. Call it before any thread is started.
/// A worker ends by `end_worker`.
///
/// Where the job is led from here, the coordinator says how many places there are, and when the end
/// has come; SIGINT and SIGTERM stop the job after the step under way. Elsewhere this host's part
/// has ended when all its workers have, and these signals are passed on to them. Given again, they
/// kill the workers.
StartedElastic start_elastic_workers(const ElasticOptions& options);

}  // namespace lockstep::launch
