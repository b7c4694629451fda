#include "train/step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "device/random.h"
#include "lockstep/error.h"
#include "parallel/passes.h"
#include "train/outputs.h"

namespace lockstep::train {

using objective::Scorecard;
using objective::Totals;
using observe::ScopedSpan;
using observe::Span;
using parallel::PipelinePart;
using parallel::Replica;
using pipeline::Action;

namespace {

constexpr int kRequests = 2;

constexpr const char* kSmallBatchHint =
    "; an epoch's last batch is smaller than the others: train.drop_last = true leaves it out";

// What gradients are divided by at first; the loss's own weight may be different.
double items_of(const data::LoadedBatch& batch) {
  return static_cast<double>(std::max<int64_t>(batch.whole_items, 1));
}

int micro_batches_of(const parallel::Grid& grid, const collective::Shards& pieces) {
  const auto pipeline = static_cast<size_t>(grid.pipeline());
  return static_cast<int>(pieces.bounds()[pipeline + 1] - pieces.bounds()[pipeline]);
}

}  // namespace

CallPlace Step::Scene::place(int64_t samples, int64_t whole_batch) const {
  return {"step", step, samples, batch.whole < whole_batch ? kSmallBatchHint : ""};
}

Step::Step(const Recipe& recipe, StepParts parts)
    : parts_(std::move(parts)),
      seed_(static_cast<uint64_t>(recipe.train.seed)),
      batch_(recipe.train.batch),
      accumulate_(recipe.train.accumulate),
      clip_norm_(recipe.optimizer.clip_norm),
      outputs_(parts_.objective->outputs()),
      scorecard_(parts_.objective->metrics(), Phase::training),
      actions_(parallel::actions_of(recipe.parallel.schedule, *parts_.grid,
                                    micro_batches_of(*parts_.grid, parts_.shards.cut(accumulate_)),
                                    parts_.mirrors ? parts_.mirrors->devices().size() : 0)) {
  std::vector<c10::Device> devices;
  for (const parallel::ModelPart& part : parts_.model) devices.push_back(part.device());
  const std::vector<parallel::PartLinks> links = link_parts(*parts_.grid, parts_.world, devices);
  for (size_t i = 0; i < parts_.model.size(); ++i)
    trained_.push_back(std::make_unique<TrainedPart>(
        recipe, parts_.model[i], links[i], parts_.grid->replicas(parts_.grid->parts()[i]),
        parts_.shards, [this, i](size_t parameter) { take_gradient(i, parameter); },
        parts_.mirrors));
  if (!trained_.back()->part().is_last()) return;
  collective::Communicator& group = trained_.back()->replica().group();
  const collective::Shards pieces = parts_.shards.cut(accumulate_);
  sums_.emplace(static_cast<int64_t>(scorecard_.sums()) + kRequests, pieces, group);
  if (scorecard_.maxima() > 0)
    maxima_.emplace(static_cast<int64_t>(scorecard_.maxima()), pieces, group, Operation::max);
}

Totals Step::run(const data::LoadedBatch& batch, int64_t step, observe::SpanTimes& spans) {
  for (const auto& part : trained_) {
    part->replica().check_model();
    part->replica().notice_loaded_weights();
  }
  const Scene scene{batch, step, spans};
  for (const Action& action : actions_) {
    try {
      perform(action, scene);
    } catch (const OutOfMemory& error) {
      throw with_advice(error, action, scene);
    }
  }
  Totals totals;
  {
    ScopedSpan span(spans, Span::exchange);
    totals = finish(scene);
  }
  ScopedSpan span(spans, Span::optimizer);
  update(scene, totals.weight);
  return totals;
}

TrainedPart& Step::part(int number) {
  const std::vector<int>& numbers = parts_.grid->parts();
  return *trained_[static_cast<size_t>(std::ranges::find(numbers, number) - numbers.begin())];
}

Range Step::samples_of(const Scene& scene, int micro_batch) const {
  const Replica& replica = trained_.front()->replica();
  return slice(scene.batch.whole, replica.pieces(), replica.piece(micro_batch));
}

class Step::ObjectivePasses final : public parallel::Passes {
 public:
  ObjectivePasses(Step& step, const Scene& scene) : step_(step), scene_(scene) {}

  bool has_samples(int micro_batch) const override {
    return !step_.samples_of(scene_, micro_batch).empty();
  }
  uint64_t seed(int64_t piece) const override {
    return RandomStream(Purpose::forward, step_.seed_, scene_.step, piece).next();
  }
  Batch samples(PipelinePart& part, int micro_batch) override {
    const Range range = step_.samples_of(scene_, micro_batch);
    const Batch samples = step_.parts_.batches->part(scene_.batch, range);
    return part.mirrors() != nullptr ? part.mirrors()->scattered(samples, micro_batch)
                                     : moved(samples, part.device());
  }
  Tensors outputs(PipelinePart& part, const Tensors& inputs, int micro_batch) override {
    return part.part().is_last()
               ? outputs_of(part.part(micro_batch), inputs, step_.outputs_, place(micro_batch))
               : forward_of(part.part(), inputs, place(micro_batch));
  }
  Loss loss(const MicroBatch& own, int micro_batch) override {
    return call_user_code("the objective's loss()", place(micro_batch), [&] {
      return step_.checked(step_.parts_.objective->loss(own.outputs, own.samples));
    });
  }
  void backward(PipelinePart& part, int micro_batch) override {
    step_.backward(part, micro_batch, scene_);
  }
  void score(PipelinePart& part, int micro_batch) override {
    step_.score(part, micro_batch, scene_);
  }
  int64_t notes() const override { return step_.requests_; }

 private:
  CallPlace place(int micro_batch) const {
    return scene_.place(step_.samples_of(scene_, micro_batch).size(), step_.batch_);
  }

  Step& step_;
  const Scene& scene_;
};

void Step::perform(const Action& action, const Scene& scene) {
  const bool ends = action.kind == Kind::backward || action.kind == Kind::finish;
  const ScopedSpan span(scene.spans, action.kind == Kind::forward ? Span::forward
                                     : ends                       ? Span::backward
                                                                  : Span::exchange);
  ObjectivePasses passes(*this, scene);
  if (action.kind == Kind::collect) gradients_ = Gradients::taken;
  parallel::perform(action, part(action.part), passes);
  gradients_ = Gradients::refused;
}

void Step::backward(PipelinePart& part, int micro_batch, const Scene& scene) {
  const Range samples = samples_of(scene, micro_batch);
  gradients_ = Gradients::taken;
  // With this scale, the mean over shards is the sum divided by the whole batch's items.
  const double scale = static_cast<double>(part.replica().shards()) / items_of(scene.batch);
  call_user_code("the backward pass", scene.place(samples.size(), batch_), [&] {
    if (part.part().is_last())
      (part.micro_batch(micro_batch).loss.sum * scale).backward();
    else
      part.backward_from_gradients(micro_batch);
  });
  gradients_ = Gradients::refused;
}

void Step::score(PipelinePart& part, int micro_batch, const Scene& scene) {
  const std::span<double> sums = sums_->slot(micro_batch);
  const Scorecard::Slot slot = {sums.first(scorecard_.sums()),
                                maxima_ ? maxima_->slot(micro_batch) : std::span<double>(),
                                {}};
  Scorecard::clear(slot);
  const MicroBatch& own = part.micro_batch(micro_batch);
  const int64_t requests = requests_ | own.notes;
  for (int i = 0; i < kRequests; ++i)
    sums[scorecard_.sums() + static_cast<size_t>(i)] = (requests & (int64_t{1} << i)) != 0 ? 1 : 0;
  if (own.samples.samples > 0) {
    const torch::NoGradGuard no_grad;
    call_user_code("the objective's measure()", scene.place(own.samples.samples, batch_), [&] {
      scorecard_.score(*parts_.objective, own.outputs, own.samples, own.loss, slot);
    });
  }
  sums_->fold(micro_batch);
  if (maxima_) maxima_->fold(micro_batch);
}

// Waits for the gradients and buffers of all shards, and adds up their losses and metrics.
Totals Step::finish(const Scene& scene) {
  const collective::Pending sums = sums_ ? sums_->start() : collective::Pending();
  const collective::Pending maxima = maxima_ ? maxima_->start() : collective::Pending();
  for (const auto& part : trained_) {
    part->finish_sending();
    part->replica().finish(std::min(scene.batch.whole, part->replica().pieces()));
  }
  sums.wait();
  maxima.wait();
  std::vector<double> results(scorecard_.sums() + kRequests + scorecard_.maxima());
  if (sums_) {
    const auto rest = std::ranges::copy(sums_->result(), results.begin()).out;
    if (maxima_) std::ranges::copy(maxima_->result(), rest);
  }
  parts_.grid->share_from_last(results);
  const std::span<const double> all(results);
  granted_ = 0;
  for (int i = 0; i < kRequests; ++i)
    if (all[scorecard_.sums() + static_cast<size_t>(i)] > 0) granted_ |= int64_t{1} << i;
  return scorecard_.totals(all.first(scorecard_.sums()), all.last(scorecard_.maxima()));
}

std::vector<World> Step::worlds() const {
  std::vector<World> all = parts_.grid->worlds();
  for (const auto& part : trained_)
    for (World& world : part->links().worlds()) all.push_back(std::move(world));
  return all;
}

bool Step::state_is_divided() const {
  return !parts_.grid->is_whole() || trained_.front()->optimizer().is_divided();
}

void Step::roll_back() {
  for (const auto& part : trained_) part->roll_back();
}

void Step::take_gradient(size_t part, size_t parameter) {
  Replica& replica = trained_[part]->replica();
  if (gradients_ == Gradients::dropped) {
    replica.parameters().tensors[parameter].mutable_grad().reset();
    return;
  }
  if (gradients_ == Gradients::refused)
    throw BadInput(
        "a backward pass inside the model's forward() or the objective's loss(): its gradients "
        "would be mixed up with the step's; add the term to the loss, or compute gradients by "
        "torch::autograd::grad");
  trained_[part]->got_gradient()[parameter] = 1;
  replica.take(parameter, Replica::Gradient::dropped);
}

std::vector<std::string> Step::without_gradient() {
  std::vector<std::string> names;
  for (const auto& part : trained_) {
    std::vector<double> anywhere = part->got_gradient();
    part->replica().group().all_reduce({reinterpret_cast<std::byte*>(anywhere.data()),
                                        static_cast<int64_t>(anywhere.size()), Type::f64},
                                       Operation::max);
    for (size_t i = 0; i < anywhere.size(); ++i)
      if (anywhere[i] == 0) names.push_back(part->replica().parameters().names[i]);
  }
  return parts_.grid->gathered(std::move(names));
}

Loss Step::checked(Loss loss) const {
  if (!loss.sum.defined() || loss.sum.numel() != 1 || !loss.sum.requires_grad())
    throw BadInput(
        "the objective's loss must be a single number that depends on the model's outputs: sum it, "
        "and do not detach it");
  return loss;
}

// The optimizer runs last, so after an error parameters are unchanged; only where its state is
// divided the update itself can fail.
void Step::update(const Scene& scene, double weight) {
  if (!(weight > 0))
    throw BadInput("the objective's weights of step {}'s batch sum to {}: expected more than 0",
                   scene.step, weight);
  // Gradients were divided by the batch's items; objectives may define other weights.
  const double items = items_of(scene.batch);
  for (const auto& part : trained_)
    if (weight != items) part->replica().scale_gradients(items / weight);
  if (clip_norm_ > 0) {
    std::vector<PipelinePart*> parts;
    for (const auto& part : trained_) parts.push_back(part.get());
    parallel::clip_gradients(parts, parts_.parameters, *parts_.grid, clip_norm_);
  }
  for (const auto& part : trained_)
    part->optimizer().step(parts_.schedule.at(scene.step), scene.step + 1);
}

}  // namespace lockstep::train
