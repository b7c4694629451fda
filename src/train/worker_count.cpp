#include "train/worker_count.h"

#include "lockstep/error.h"

namespace lockstep::train {

void check_worker_count(const Recipe& recipe, int workers) {
  const int64_t shards = shards_of(recipe);
  if (workers <= shards) return;
  throw BadInput(
      "{} workers for {} shards: a worker computes at least one; set train.shards (--shards) to a "
      "divisor of train.batch ({}) that is at least {}, or take fewer workers",
      workers, shards, recipe.train.batch, workers);
}

}  // namespace lockstep::train
