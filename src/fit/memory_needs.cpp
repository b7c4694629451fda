#include "fit/memory_needs.h"

#include "optim/optimizer.h"

namespace lockstep::fit {

MemoryNeeds memory_needs(int64_t state, int64_t trained, const Recipe& recipe, int64_t slots,
                         int64_t shares) {
  const bool is_narrow = recipe.train.compress == "f16" || recipe.train.compress == "bf16";
  const int64_t of_optimizer =
      optim::optimizers().at(recipe.optimizer.name).state_per_parameter * trained;
  return {.parameters = state,
          .gradients = is_narrow ? slots * trained / 2 + trained : slots * trained,
          .optimizer = (of_optimizer + shares - 1) / shares};
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
