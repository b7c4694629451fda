#include "train/step.h"

#include <algorithm>
#include <utility>

#include "base/range.h"
#include "base/units.h"
#include "device/random.h"
#include "lockstep/error.h"
#include "parallel/on_host.h"
#include "train/memory.h"
#include "train/outputs.h"
#include "train/placement.h"
#include "train/user_code.h"
#include "virtual_devices/accounts.h"

namespace lockstep::train {

using objective::Scorecard;
using objective::Totals;
using observe::ScopedSpan;
using observe::Span;
using parallel::Replica;
using parallel::ReplicaOptions;
using parallel::ShardStatistics;

namespace {

constexpr size_t kRequests = 2;

constexpr const char* kSmallBatchHint =
    "; an epoch's last batch is smaller than the others: train.drop_last = true leaves it out";

// What gradients are divided by at first; the loss's own weight may be different.
double items_of(const data::LoadedBatch& batch) {
  return static_cast<double>(std::max<int64_t>(batch.whole_items, 1));
}

std::span<float> floats_of(const torch::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

int64_t state_bytes(optim::Optimizer& optimizer) {
  int64_t bytes = 0;
  for (const auto& [name, values] : optimizer.state())
    bytes += static_cast<int64_t>(values.size_bytes());
  return bytes;
}

ReplicaOptions replica_options(const Recipe& recipe, const collective::Shards& shards) {
  const std::string& compress = recipe.train.compress;
  ReplicaOptions options{.shards = shards,
                         .parameters = ReplicaOptions::ParameterMemory::flat,
                         .buffers = ReplicaOptions::BufferMode::mean_over_shards};
  if (compress == "f16") options.compress = Compress::f16;
  if (compress == "bf16") options.compress = Compress::bf16;
  if (compress == "power_sgd")
    options.hook = power_sgd(
        {.rank = recipe.train.compress_rank, .seed = static_cast<uint64_t>(recipe.train.seed)});
  return options;
}

}  // namespace

Step::Step(const Recipe& recipe, StepParts parts)
    : parts_(std::move(parts)),
      device_(device_of(*parts_.model)),
      seed_(static_cast<uint64_t>(recipe.train.seed)),
      batch_(recipe.train.batch),
      accumulate_(recipe.train.accumulate),
      clip_norm_(recipe.optimizer.clip_norm),
      outputs_(parts_.objective->outputs()),
      scorecard_(parts_.objective->metrics(), Phase::training),
      replica_(*parts_.model, parts_.world, replica_options(recipe, parts_.shards),
               [this](size_t parameter) { take_gradient(parameter); }),
      optimizer_(optim::make_optimizer(
          recipe.optimizer,
          replica_.flat_parameters().sections(recipe.optimizer.decay_bias_and_norm))),
      optimizer_memory_(virtual_devices::account_of(device_), state_bytes(*optimizer_),
                        MemoryUse::optimizer),
      sums_(static_cast<int64_t>(scorecard_.sums() + kRequests), parts_.shards, replica_.group()) {
  got_gradient_.resize(replica_.parameters().size());
  if (scorecard_.maxima() > 0)
    maxima_.emplace(static_cast<int64_t>(scorecard_.maxima()), parts_.shards, replica_.group(),
                    Operation::max);
}

Totals Step::run(const data::LoadedBatch& batch, int64_t step, observe::SpanTimes& spans) {
  replica_.check_model();
  replica_.notice_loaded_weights();
  for (int pass = 0; pass < replica_.passes(); ++pass) {
    try {
      run_shard(pass, batch, step, spans);
    } catch (const OutOfMemory& error) {
      throw with_advice(error, batch, step, pass);
    }
  }
  {
    ScopedSpan span(spans, Span::exchange);
    const collective::Pending sums = sums_.start();
    const collective::Pending maxima = maxima_ ? maxima_->start() : collective::Pending();
    replica_.finish(std::min(batch.whole, replica_.shards()));
    sums.wait();
    maxima.wait();
  }
  const std::span<double> sums = sums_.result().first(scorecard_.sums());
  const std::span<double> requests = sums_.result().last(kRequests);
  const Totals totals = scorecard_.totals(sums, maxima_ ? maxima_->result() : std::span<double>());
  {
    ScopedSpan span(spans, Span::optimizer);
    update(batch, step, totals.weight);
  }
  for (size_t i = 0; i < kRequests; ++i) granted_[i] = requests[i] > 0;
  return totals;
}

void Step::take_gradient(size_t parameter) {
  if (gradients_ == Gradients::dropped) {
    replica_.parameters().tensors[parameter].mutable_grad().reset();
    return;
  }
  if (gradients_ == Gradients::refused)
    throw BadInput(
        "a backward pass inside the model's forward() or the objective's loss(): its gradients "
        "would be mixed up with the step's; add the term to the loss, or compute gradients by "
        "torch::autograd::grad");
  got_gradient_[parameter] = 1;
  replica_.take(parameter, Replica::Gradient::dropped);
}

std::vector<std::string> Step::without_gradient() {
  std::vector<double> anywhere = got_gradient_;
  replica_.group().all_reduce({reinterpret_cast<std::byte*>(anywhere.data()),
                               static_cast<int64_t>(anywhere.size()), Type::f64},
                              Operation::max);
  std::vector<std::string> names;
  for (size_t i = 0; i < anywhere.size(); ++i)
    if (anywhere[i] == 0) names.push_back(replica_.parameters().names[i]);
  return names;
}

void Step::run_shard(int pass, const data::LoadedBatch& batch, int64_t step,
                     observe::SpanTimes& spans) {
  replica_.group().check();
  const int64_t shard = replica_.shard(pass);
  const Range range = slice(batch.whole, replica_.shards(), shard);
  const std::span<double> sums = sums_.slot(pass);
  const Scorecard::Slot slot = {
      sums.first(scorecard_.sums()), maxima_ ? maxima_->slot(pass) : std::span<double>(), {}};
  Scorecard::clear(slot);
  for (size_t i = 0; i < kRequests; ++i)
    sums[scorecard_.sums() + i] = pass == 0 && requests_[i] ? 1 : 0;
  replica_.begin_pass(pass);
  if (!range.empty()) {
    const Batch part = parts_.batches->part(batch, range);
    const char* const hint = batch.whole < batch_ ? kSmallBatchHint : "";
    gradients_ = Gradients::taken;
    // With this scale, the mean over shards is the sum divided by the whole batch's items.
    const auto [outputs, loss] = forward_backward(
        {step, shard, part, static_cast<double>(replica_.shards()) / items_of(batch), hint}, spans);
    const CallPlace place = {"step", step, part.samples, hint};
    torch::NoGradGuard no_grad;
    call_user_code("the objective's measure()", place,
                   [&] { scorecard_.score(*parts_.objective, outputs, part, loss, slot); });
  }
  replica_.end_pass(range.empty() ? ShardStatistics::Shard::is_empty
                                  : ShardStatistics::Shard::has_samples);
  sums_.fold(pass);
  if (maxima_) maxima_->fold(pass);
}

Step::Result Step::forward_backward(const Piece& piece, observe::SpanTimes& spans) {
  const MemoryScope scope(MemoryUse::activations);
  const CallPlace place = {"step", piece.step, piece.samples.samples, piece.hint};
  // Dropout draws from LibTorch's generator: seeding it by step and shard makes it independent of
  // the order of shards.
  torch::manual_seed(RandomStream(Purpose::forward, seed_, piece.step, piece.shard).next());
  Result result;
  const Gradients then = std::exchange(gradients_, Gradients::refused);
  {
    ScopedSpan span(spans, Span::forward);
    result.outputs = outputs_of(*parts_.model, outputs_, piece.samples, place);
    result.loss = call_user_code("the objective's loss()", place, [&] {
      return checked(parts_.objective->loss(result.outputs, piece.samples));
    });
  }
  {
    ScopedSpan span(spans, Span::backward);
    gradients_ = then;
    call_user_code("the backward pass", place, [&] { (result.loss.sum * piece.scale).backward(); });
    gradients_ = Gradients::refused;
  }
  return result;
}

OutOfMemory Step::with_advice(const OutOfMemory& error, const data::LoadedBatch& batch,
                              int64_t step, int pass) {
  const Range shard = slice(batch.whole, replica_.shards(), replica_.shard(pass));
  observe::SpanTimes unused;
  const auto try_with = [&](int64_t samples) {
    gradients_ = Gradients::dropped;
    const Batch part = parts_.batches->part(batch, {shard.begin, shard.begin + samples});
    forward_backward({step, replica_.shard(pass), part, 1, ""}, unused);
  };
  MemoryAccount* const account = virtual_devices::account_of(device_);
  std::optional<int64_t> fit;
  if (account != nullptr) fit = samples_that_fit(*account, shard.size(), try_with);
  gradients_ = Gradients::refused;
  return {error.device(), error.asked(), error.in_use(), error.limit(),
          fmt::format("{}; this was step {}, in a pass over {}{}", error.what(), step,
                      plural(shard.size(), "sample"),
                      advice(fit, {batch_, replica_.shards() / accumulate_, accumulate_}))};
}

Loss Step::checked(Loss loss) const {
  if (!loss.sum.defined() || loss.sum.numel() != 1 || !loss.sum.requires_grad())
    throw BadInput(
        "the objective's loss must be a single number that depends on the model's outputs: sum it, "
        "and do not detach it");
  return loss;
}

// The optimizer runs last and cannot fail, so after an error parameters are unchanged.
void Step::update(const data::LoadedBatch& batch, int64_t step, double weight) {
  if (!(weight > 0))
    throw BadInput("the objective's weights of step {}'s batch sum to {}: expected more than 0",
                   step, weight);
  // Gradients were divided by the batch's items; objectives may define other weights.
  if (const double items = items_of(batch); weight != items)
    replica_.scale_gradients(items / weight);
  if (clip_norm_ > 0) replica_.clip_gradient_norm(clip_norm_);
  parallel::on_host({replica_.flat_parameters().values(), replica_.flat_gradients()},
                    [&](const std::vector<torch::Tensor>& all) {
                      optimizer_->step(floats_of(all[0]), floats_of(all[1]),
                                       parts_.schedule.at(step), step + 1);
                    });
}

}  // namespace lockstep::train
