#include "train/evaluate.h"

#include <algorithm>

namespace lockstep::train {
namespace {

// Part of the result: another batch size may round sums differently.
constexpr int64_t kBatch = 256;

}  // namespace

Totals evaluate(model::Model& model, const data::Dataset& dataset,
                const data::Normalization& normalization) {
  torch::NoGradGuard no_grad;
  model.eval();
  data::Loader loader(dataset, {.batch = std::min(kBatch, dataset.size()),
                                .order = data::Order::sequential,
                                .last = data::LastBatch::keep,
                                .normalization = normalization});
  Totals totals;
  for (int64_t i = 0; i < loader.batches_per_epoch(); ++i) {
    const auto [x, y] = to_tensors(loader.next(), dataset.shape);
    const torch::Tensor scores = model.forward(x);
    totals += {.loss = torch::cross_entropy_loss(scores, y, {}, at::Reduction::Sum).item<double>(),
               .correct = scores.argmax(1).eq(y).sum().item<int64_t>(),
               .samples = y.size(0)};
  }
  model.train();
  return totals;
}

}  // namespace lockstep::train
