#pragma once

#include <vector>

#include "collective/plan/shards.h"

namespace lockstep::parallel {

/// How a worker adds the gradients of its shards along the canonical tree while it computes them
/// one after another: pass i computes the i-th shard into a slot, then folds slots. In the end slot
/// k holds the worker's k-th term. A power of two of shards needs one slot more than its logarithm.
struct ShardSchedule {
  struct Fold {
    int into;
    int from;
  };
  struct Pass {
    int slot = 0;
    std::vector<Fold> folds;
  };

  std::vector<Pass> passes;
  int slots = 0;
};

ShardSchedule schedule_of(const collective::Shards& shards, int rank);

}  // namespace lockstep::parallel
