#include "train/step.h"

#include <algorithm>
#include <utility>

#include "base/range.h"
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

namespace {

// What shards add up to.
enum Total : size_t { kLoss, kCorrect, kSamples, kWishes, kTotals = kWishes + 2 };

parallel::GradientLayout layout_of(const parallel::Parameters& parameters) {
  return lay_out(gradient_sizes(parameters), parallel::last_first(parameters.size()), {});
}

}  // namespace

Step::Step(const Recipe& recipe, std::shared_ptr<model::Model> model, data::Shape shape,
           optim::Schedule schedule, const Division& division)
    : model_(std::move(model)),
      shape_(std::move(shape)),
      trained_(parallel::trained_parameters(*model_)),
      group_(division.group),
      shards_(division.shards),
      first_shard_(shards_.bounds()[static_cast<size_t>(division.group.rank())]),
      schedule_(std::move(schedule)),
      seed_(recipe.train.seed),
      label_smoothing_(recipe.train.label_smoothing),
      kernels_(model::kernels_named(recipe.train.kernels)),
      reducer_(trained_, layout_of(trained_), shards_, division.group),
      parameters_(trained_, reducer_.layout()),
      optimizer_(optim::make_optimizer(recipe.optimizer,
                                       parameters_.sections(recipe.optimizer.decay_bias_and_norm))),
      statistics_(*model_, shards_, division.group),
      totals_(kTotals, shards_, division.group),
      hooks_(trained_, [this](size_t parameter) { take_gradient(parameter); }) {}

Totals Step::run(const data::Batch& batch, int64_t step, observe::SpanTimes& spans) {
  under_way_ = true;
  for (int pass = 0; pass < reducer_.passes(); ++pass) run_shard(pass, batch, step, spans);
  {
    ScopedSpan span(spans, Span::exchange);
    statistics_.start();
    const collective::Pending totals = totals_.start(Operation::sum);
    reducer_.finish();
    statistics_.finish();
    totals.wait();
  }
  {
    ScopedSpan span(spans, Span::optimizer);
    optimizer_->step(parameters_.values(), gradients(), schedule_.at(step), step + 1);
  }
  under_way_ = false;
  const std::span<const double> sums = totals_.result();
  for (size_t wish = 0; wish < agreed_.size(); ++wish) agreed_[wish] = sums[kWishes + wish] > 0;
  return {.loss = sums[kLoss],
          .correct = static_cast<int64_t>(sums[kCorrect]),
          .samples = static_cast<int64_t>(sums[kSamples])};
}

// The optimizer comes last and cannot fail: parameters have not changed.
void Step::take_back() {
  if (under_way_) statistics_.take_back();
  under_way_ = false;
}

void Step::run_shard(int pass, const data::Batch& batch, int64_t step, observe::SpanTimes& spans) {
  group_.check();
  const int64_t shard = first_shard_ + pass;
  const Range range = slice(batch.whole, shards_.count(), shard);
  const std::span<double> totals = totals_.slot(pass);
  std::fill(totals.begin(), totals.end(), 0.0);
  if (pass == 0) std::copy(wishes_.begin(), wishes_.end(), totals.begin() + kWishes);
  statistics_.begin_pass(pass, batch.whole);
  reducer_.begin_pass(pass);
  if (!range.empty()) {
    const auto [all_x, all_y] = to_tensors(batch, shape_);
    const torch::Tensor x = all_x.slice(0, range.begin - batch.begin, range.end - batch.begin);
    const torch::Tensor y = all_y.slice(0, range.begin - batch.begin, range.end - batch.begin);
    // Dropout draws from LibTorch's generator: keyed by step and shard, it forgets what was before.
    torch::manual_seed(RandomStream(Purpose::forward, seed_, step, shard).next());

    torch::Tensor scores, loss;
    {
      ScopedSpan span(spans, Span::forward);
      scores = model_->forward(x);
      loss = nn::cross_entropy(scores, y, label_smoothing_, kernels_);
    }
    {
      ScopedSpan span(spans, Span::backward);
      // A mean over shards is one over samples where each shard weighs what it has of them.
      const double weight =
          static_cast<double>(range.size() * shards_.count()) / static_cast<double>(batch.whole);
      (weight == 1 ? loss : loss * weight).backward();
    }
    torch::NoGradGuard no_grad;
    totals[kLoss] = loss.item<double>() * static_cast<double>(range.size());
    totals[kCorrect] = scores.argmax(1).eq(y).sum().item<double>();
    totals[kSamples] = static_cast<double>(range.size());
  }
  reducer_.end_pass();
  statistics_.end_pass(pass);
  totals_.fold(pass);
}

// It is in its bucket now.
void Step::take_gradient(size_t parameter) {
  reducer_.add(parameter);
  trained_.tensors[parameter].mutable_grad().reset();
}

std::span<const float> Step::gradients() const {
  return {reinterpret_cast<const float*>(reducer_.memory()),
          static_cast<size_t>(reducer_.layout().bytes) / sizeof(float)};
}

}  // namespace lockstep::train
