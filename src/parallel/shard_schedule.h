#pragma once

#include <vector>

#include "collective/plan/shards.h"

namespace lockstep::parallel {

/// How a worker adds the gradients of its shards along the canonical tree while it computes one
/// shard after another: pass i writes the i-th shard's gradients to a slot, then folds slots. At
/// the end slot k holds the worker's k-th term. 2^k shards need k + 1 slots.
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
