#include "fit/memory_needs.h"

#include "optim/optimizer.h"

namespace lockstep::fit {
namespace {

// Of `bytes` that are divided among so many workers. Buckets, which hold whole cache lines, are
// divided one by one, so that workers may have an element more of each.
int64_t largest_share(int64_t bytes, int64_t shares) {
  constexpr int64_t kCacheLine = 64, kElement = 4, kBucket = int64_t{25} << 20;
  if (kCacheLine / kElement % shares == 0) return (bytes + shares - 1) / shares;
  const int64_t buckets = 2 + bytes / kBucket;
  return bytes / shares + buckets * kElement;
}

}  // namespace

MemoryNeeds memory_needs(int64_t state, int64_t trained, const Recipe& recipe, int64_t slots,
                         int64_t shares) {
  const bool is_narrow = recipe.train.compress == "f16" || recipe.train.compress == "bf16";
  const int64_t states = optim::optimizers().at(recipe.optimizer.name).state_per_parameter;
  return {.parameters = state,
          .gradients = is_narrow ? slots * trained / 2 + trained : slots * trained,
          .optimizer = states * largest_share(trained, shares),
          .slots = slots};
}

StagePlace place_of_stages(const Recipe& recipe, int workers) {
  if (workers > 1 || recipe.parallel.stages == 1) return StagePlace::workers;
  return recipe.device.kind == "cpu" ? StagePlace::one_device : StagePlace::devices_of_a_worker;
}

bool has_samples(StagePlace place, bool is_first, bool is_last) {
  return is_first || (is_last && place == StagePlace::workers);
}

int64_t bytes_of_batches(const Recipe& recipe, int64_t samples, int64_t bytes_per_sample) {
  return recipe.device.kind == "cpu" ? 0 : 2 * samples * bytes_per_sample;
}

}  // namespace lockstep::fit
