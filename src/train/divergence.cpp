#include "train/divergence.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cmath>

#include "lockstep/error.h"

namespace lockstep::train {

void check_loss(const objective::Totals& totals, int64_t step, const Recipe& recipe) {
  if (std::isfinite(totals.loss)) return;
  if (step == 0)
    throw Error(fmt::format(
        "the loss is {} at step 0, before any update: look for values that are not finite in the "
        "data, the initial weights or the objective",
        totals.loss));
  throw Error(fmt::format(
      "the loss is {} at step {}: training diverged, so lower optimizer.lr (now {}) or raise "
      "schedule.warmup_epochs (now {}); or the data of this step have values that are not finite",
      totals.loss, step, recipe.optimizer.lr, recipe.schedule.warmup_epochs));
}

void check_parameters(const Model& model, int64_t steps, const Recipe& recipe) {
  torch::NoGradGuard no_grad;
  for (const auto& item : model.named_parameters())
    if (item.value().is_floating_point() && !torch::isfinite(item.value().sum()).item<bool>() &&
        !torch::isfinite(item.value()).all().item<bool>())
      throw Error(
          fmt::format("parameter '{}' is not finite after step {}: training diverged; lower "
                      "optimizer.lr (now {}) or set optimizer.clip_norm",
                      item.key(), steps, recipe.optimizer.lr));
}

}  // namespace lockstep::train
