#pragma once

#include <optional>
#include <vector>

#include "launch/ending.h"

namespace lockstep::launch {

/// Which workers' output goes through this process, line by line with the rank in front.
enum class Prefixed {
  none,
  others,  ///< all but rank 0's, which may draw on the terminal
  all,
};

struct WorkersOptions {
  int count = 1;
  int first_rank = 0;  ///< of the workers started here
  Prefixed prefixed = Prefixed::none;
  /// How long the others may take to end by themselves when one has ended badly.
  double patience_seconds = 3;
};

/// Returns in the launcher, and in each worker.
struct StartedWorkers {
  std::optional<int> rank;      ///< in a worker: its own
  std::vector<Ending> endings;  ///< in the launcher: how they ended, in order of rank
};

/// Forks workers, each on processors of its own as far as there are. Returns in each of them at
/// once, and here when all have ended. When one ends badly, the others get some time to end by
/// themselves, and are then killed; so they do when one ends that the others still wait for in
/// their rendezvous. SIGINT and SIGTERM are passed on to the workers; given again, they are killed.
/// Neither workers nor what they started outlive this process, however it ends. They read nothing
/// from a terminal: stdin is /dev/null, except rank 0's where ours is no terminal. Call it before
/// any thread is started. A worker ends by `end_worker`.
StartedWorkers start_workers(const WorkersOptions& options);

}  // namespace lockstep::launch
