#include "train/evaluate.h"

#include <algorithm>
#include <vector>

#include "base/range.h"

namespace lockstep::train {
namespace {

// Part of the result: another batch size may round sums differently.
constexpr int64_t kBatch = 256;

}  // namespace

Totals evaluate(model::Model& model, const data::Dataset& dataset,
                const data::Normalization& normalization, collective::Communicator& group) {
  torch::NoGradGuard no_grad;
  model.eval();
  data::Loader loader(dataset, {.batch = std::min(kBatch, dataset.size()),
                                .order = data::Order::sequential,
                                .last = data::LastBatch::keep,
                                .normalization = normalization});
  struct Result {
    double loss, correct, samples;
  };
  // Everyone's results in the order of batches: sums then do not depend on who computed which.
  std::vector<Result> results(static_cast<size_t>(loader.batches_per_epoch()), Result{0, 0, 0});
  const Range mine = slice(loader.batches_per_epoch(), group.world_size(), group.rank());
  if (!mine.empty()) loader.seek(0, mine.begin);
  for (int64_t i = mine.begin; i < mine.end; ++i) {
    group.check();
    const auto [x, y] = to_tensors(loader.next(), dataset.shape);
    const torch::Tensor scores = model.forward(x);
    results[static_cast<size_t>(i)] = {
        torch::cross_entropy_loss(scores, y, {}, at::Reduction::Sum).item<double>(),
        scores.argmax(1).eq(y).sum().item<double>(), static_cast<double>(y.size(0))};
  }
  group.all_reduce({reinterpret_cast<std::byte*>(results.data()),
                    static_cast<int64_t>(results.size() * 3), Type::f64});
  Totals totals;
  for (const auto& [loss, correct, samples] : results)
    totals += {loss, static_cast<int64_t>(correct), static_cast<int64_t>(samples)};
  model.train();
  return totals;
}

}  // namespace lockstep::train
