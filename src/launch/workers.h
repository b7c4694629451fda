#pragma once

#include <optional>
#include <vector>

#include "launch/ending.h"

namespace lockstep::launch {

/// Which workers' output goes through the launcher, line by line and with the rank in front.
enum class Prefixed {
  none,
  others,  ///< all but rank 0, which may draw on the terminal
  all,
};

struct WorkersOptions {
  int count = 1;
  int first_rank = 0;  ///< of the workers started here
  Prefixed prefixed = Prefixed::none;
  bool pinned = true;  ///< to processors of their own
  /// How long the other workers may take to end by themselves after one has failed.
  double patience_seconds = 3;
};

/// Result of start_workers, which returns in the launcher and in each worker.
struct StartedWorkers {
  std::optional<int> rank;      ///< in a worker: its own
  std::vector<Ending> endings;  ///< in the launcher: how they ended, in order of rank
};

/// Forks workers, each pinned to its own processors if there are enough. Returns in each worker at
/// once, and in the launcher when all have ended. When a worker fails, or ends while others wait
/// for it in the rendezvous, the others get some time to end by themselves and are then killed.
/// SIGINT and SIGTERM are passed on to the workers; a second signal kills them. Neither workers nor
/// processes that they started outlive the launcher, however it ends. Workers do not read from a
/// terminal: their stdin is /dev/null, except for rank 0 if the launcher's stdin is not a terminal.
/// Call it before any thread is started. A worker must end by `end_worker`.
StartedWorkers start_workers(const WorkersOptions& options);

}  // namespace lockstep::launch
