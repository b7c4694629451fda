#pragma once

#include <algorithm>
#include <cstdint>

#include "recipe/recipe.h"

namespace lockstep::fit {

/// What training needs of a device's memory before the first step, in bytes.
struct MemoryNeeds {
  int64_t parameters = 0;  ///< and buffers
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t slots = 1;  ///< equal parts of `gradients`

  int64_t sum() const { return parameters + gradients + optimizer; }
  MemoryNeeds& operator+=(const MemoryNeeds& other) {
    parameters += other.parameters;
    gradients += other.gradients;
    optimizer += other.optimizer;
    slots = std::max(slots, other.slots);
    return *this;
  }
};

/// Of layers whose parameters and buffers need so many bytes in training, of which `trained` are
/// trained parameters' (see train::StateSize).
/// Gradients are in `slots` (see parallel/shard_schedule.h), and so many workers share the
/// optimizer's state.
MemoryNeeds memory_needs(int64_t state, int64_t trained, const Recipe& recipe, int64_t slots,
                         int64_t shares);

/// Where a pipeline's stages are.
enum class StagePlace {
  workers,              ///< each is a worker with a device of its own
  devices_of_a_worker,  ///< one worker computes all, each on a device of its own
  one_device            ///< one worker computes all on its CPU, whose memory they share
};
StagePlace place_of_stages(const Recipe& recipe, int workers);

/// Of a stage, whether samples wait on its device: a worker loads them for its first stage, and
/// needs those of the pipeline's first or last one.
bool has_samples(StagePlace place, bool is_first, bool is_last);

/// What they need there: those of the batch that is computed and of the next one, of which a
/// pipeline has so many samples each. Nothing on the CPU, where they are in the loader's memory.
int64_t bytes_of_batches(const Recipe& recipe, int64_t samples, int64_t bytes_per_sample);

}  // namespace lockstep::fit
