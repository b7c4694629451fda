#pragma once

#include <vector>

#include "collective/plan/shards.h"

namespace lockstep::parallel {

/// How a worker adds the gradients of its shards along the canonical tree while it computes one
/// shard after another: a pass writes its shard's gradients to a slot, then folds slots. At the end
/// slot k holds the worker's k-th term. 2^k shards need k + 1 slots. A shard that is computed in
/// several *pieces* has a pass for each; they are added in the shard's slot, one after another, and
/// need no slots of their own.
struct ShardSchedule {
  struct Fold {
    int into;
    int from;
  };
  struct Pass {
    int slot = 0;
    bool adds = false;  ///< to what the slot holds, of earlier pieces of the shard
    std::vector<Fold> folds = {};
  };

  std::vector<Pass> passes;
  int slots = 0;
};

ShardSchedule schedule_of(const collective::Shards& shards, int rank, int64_t pieces = 1);

}  // namespace lockstep::parallel
