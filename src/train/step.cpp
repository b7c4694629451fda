#include "train/step.h"

#include <torch/nn/functional/loss.h>

#include <utility>

#include "device/random.h"

namespace lockstep::train {

using observe::ScopedSpan;
using observe::Span;

Totals& Totals::operator+=(const Totals& other) {
  loss += other.loss;
  correct += other.correct;
  samples += other.samples;
  return *this;
}

BatchTensors to_tensors(const data::Batch& batch, const data::Shape& shape) {
  const auto count = static_cast<int64_t>(batch.labels.size());
  std::vector<int64_t> sizes = shape;
  sizes.insert(sizes.begin(), count);
  return {torch::from_blob(batch.values.data(), sizes, torch::kFloat32),
          torch::from_blob(batch.labels.data(), {count}, torch::kInt64)};
}

Step::Step(const Recipe& recipe, std::shared_ptr<model::Model> model, data::Shape shape,
           optim::Schedule schedule)
    : model_(std::move(model)),
      shape_(std::move(shape)),
      parameters_(*model_),
      optimizer_(optim::make_optimizer(recipe.optimizer,
                                       parameters_.sections(recipe.optimizer.decay_bias_and_norm))),
      schedule_(std::move(schedule)),
      seed_(recipe.train.seed),
      label_smoothing_(recipe.train.label_smoothing) {}

Totals Step::run(const data::Batch& batch, int64_t step, observe::SpanTimes& spans) {
  const auto [x, y] = to_tensors(batch, shape_);
  // Dropout draws from LibTorch's generator: keyed by step, it forgets everything before.
  torch::manual_seed(RandomStream(Purpose::forward, seed_, step).next());

  torch::Tensor scores, loss;
  {
    ScopedSpan span(spans, Span::forward);
    scores = model_->forward(x);
    loss = torch::cross_entropy_loss(scores, y, {}, at::Reduction::Mean, -100, label_smoothing_);
  }
  {
    ScopedSpan span(spans, Span::backward);
    parameters_.zero_gradients();
    loss.backward();
  }
  {
    ScopedSpan span(spans, Span::optimizer);
    optimizer_->step(parameters_.values(), parameters_.gradients(), schedule_.at(step), step + 1);
  }

  torch::NoGradGuard no_grad;
  const int64_t samples = y.size(0);
  return {.loss = loss.item<double>() * static_cast<double>(samples),
          .correct = scores.argmax(1).eq(y).sum().item<int64_t>(),
          .samples = samples};
}

}  // namespace lockstep::train
