#include "train/step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "device/random.h"
#include "lockstep/error.h"
#include "parallel/generator.h"
#include "pipeline/in_groups.h"
#include "pipeline/in_one_order.h"
#include "train/outputs.h"
#include "train/placement.h"

namespace lockstep::train {

using objective::Scorecard;
using objective::Totals;
using observe::ScopedSpan;
using observe::Span;
using parallel::Replica;
using parallel::ShardStatistics;
using pipeline::Action;

namespace {

constexpr int kRequests = 2;

constexpr const char* kSmallBatchHint =
    "; an epoch's last batch is smaller than the others: train.drop_last = true leaves it out";

// What gradients are divided by at first; the loss's own weight may be different.
double items_of(const data::LoadedBatch& batch) {
  return static_cast<double>(std::max<int64_t>(batch.whole_items, 1));
}

ShardStatistics::Shard shard_of(Range samples) {
  return samples.empty() ? ShardStatistics::Shard::is_empty : ShardStatistics::Shard::has_samples;
}

// What this worker does in a step: the actions of its stage, or of all stages or devices.
std::vector<Action> actions_of(const Recipe& recipe, const StepParts& parts) {
  const parallel::Grid& grid = *parts.grid;
  const collective::Shards pieces = parts.shards.cut(recipe.train.accumulate);
  pipeline::PipelineShape shape = grid.shape();
  const auto pipeline = static_cast<size_t>(grid.pipeline());
  shape.micro_batches = static_cast<int>(pieces.bounds()[pipeline + 1] - pieces.bounds()[pipeline]);
  if (parts.mirrors)
    return pipeline::in_groups(shape.micro_batches,
                               static_cast<int>(parts.mirrors->devices().size()));
  const pipeline::PipelineSchedule schedule =
      make_schedule(pipeline::pipeline_schedules().at(recipe.parallel.schedule), shape);
  return grid.is_whole() ? in_one_order(schedule)
                         : schedule.actions[static_cast<size_t>(grid.parts().front())];
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
      actions_(actions_of(recipe, parts_)) {
  std::vector<c10::Device> devices;
  for (const parallel::ModelPart& part : parts_.model) devices.push_back(device_of(part.module()));
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

void Step::perform(const Action& action, const Scene& scene) {
  TrainedPart& part = this->part(action.part);
  const int micro_batch = action.micro_batch;
  // Forward and backward passes of no samples count, too.
  if ((action.receives() || action.sends()) && samples_of(scene, micro_batch).empty()) return;
  if (action.kind == Kind::collect) return collect(part, micro_batch, scene);
  const ScopedSpan span(scene.spans, action.kind == Kind::forward    ? Span::forward
                                     : action.kind == Kind::backward ? Span::backward
                                                                     : Span::exchange);
  switch (action.kind) {
    case Kind::receive_input:
      return part.receive_input(micro_batch);
    case Kind::forward:
      return forward(part, micro_batch, scene);
    case Kind::send_output:
      return part.send_output(micro_batch, requests_);
    case Kind::receive_gradient:
      return part.receive_gradient(micro_batch);
    case Kind::backward:
      backward(part, micro_batch, scene);
      return part.finish_group(micro_batch);
    case Kind::send_gradient:
      return part.send_gradient(micro_batch);
    case Kind::scatter:
      begin(part, micro_batch, scene);
      return part.finish_group(micro_batch);
    case Kind::collect:
      break;
  }
}

// Seeded by step and shard, so that random numbers do not depend on who computes the shard, and
// when. A part goes on where the one before it ended.
void Step::seed_generator(const TrainedPart& part, const MicroBatch& own, int micro_batch,
                          const Scene& scene) const {
  const int64_t piece = part.replica().piece(micro_batch);
  torch::manual_seed(RandomStream(Purpose::forward, seed_, scene.step, piece).next());
  if (own.generator.defined()) parallel::set_generator_state(own.generator);
}

// Prepares a micro-batch's pass: buffers as at the start of the step, samples on their device.
void Step::begin(TrainedPart& part, int micro_batch, const Scene& scene) {
  const Range samples = samples_of(scene, micro_batch);
  part.replica().group().check();
  if (!part.is_mirrored(micro_batch)) part.replica().begin_forward(micro_batch, shard_of(samples));
  if (samples.empty()) return;
  if (part.is_mirrored(micro_batch)) part.replicate(micro_batch);
  const MemoryScope scope(MemoryUse::activations);
  if (!part.part().is_first() && !part.part().is_last()) return;
  const Batch there = parts_.batches->part(scene.batch, samples);
  part.micro_batch(micro_batch).samples = part.mirrors() != nullptr
                                              ? part.mirrors()->scattered(there, micro_batch)
                                              : moved(there, part.device());
}

void Step::forward(TrainedPart& part, int micro_batch, const Scene& scene) {
  const Range samples = samples_of(scene, micro_batch);
  if (part.mirrors() == nullptr) begin(part, micro_batch, scene);
  if (samples.empty()) return;
  const MemoryScope scope(MemoryUse::activations);
  const CallPlace place = scene.place(samples.size(), batch_);
  MicroBatch& own = part.micro_batch(micro_batch);
  seed_generator(part, own, micro_batch, scene);
  const Tensors& inputs = part.part().is_first() ? own.samples.inputs : own.inputs;
  if (!part.part().is_last()) {
    const at::Tensor before = parallel::generator_state();
    own.outputs = forward_of(part.part(), inputs, place);
    const at::Tensor after = parallel::generator_state();
    if (own.generator.defined() || !after.equal(before)) own.generator = after;
    return;
  }
  own.outputs = outputs_of(part.part(micro_batch), inputs, outputs_, place);
  own.loss = call_user_code("the objective's loss()", place, [&] {
    return checked(parts_.objective->loss(own.outputs, own.samples));
  });
}

void Step::backward(TrainedPart& part, int micro_batch, const Scene& scene) {
  const Range samples = samples_of(scene, micro_batch);
  if (!part.is_mirrored(micro_batch)) part.replica().begin_backward(micro_batch);
  if (!samples.empty()) {
    const MemoryScope scope(MemoryUse::activations);
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
  if (part.mirrors() == nullptr) end(part, micro_batch, scene);
}

void Step::collect(TrainedPart& part, int micro_batch, const Scene& scene) {
  const MemoryScope scope(MemoryUse::activations);
  if (part.is_mirrored(micro_batch)) {
    const ScopedSpan span(scene.spans, Span::exchange);
    gradients_ = Gradients::taken;
    part.take_from_mirror(micro_batch, shard_of(samples_of(scene, micro_batch)));
    gradients_ = Gradients::refused;
  }
  const ScopedSpan span(scene.spans, Span::backward);
  end(part, micro_batch, scene);
}

void Step::end(TrainedPart& part, int micro_batch, const Scene& scene) {
  if (part.part().is_last()) score(part, micro_batch, scene);
  part.replica().end_backward();
  if (part.part().is_first()) part.forget(micro_batch);
}

void Step::score(TrainedPart& part, int micro_batch, const Scene& scene) {
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
  if (clip_norm_ > 0) clip_gradients();
  for (const auto& part : trained_)
    part->optimizer().step(parts_.schedule.at(scene.step), scene.step + 1);
}

// The norm is that of the whole model's gradients, added up in the order of its parameters.
void Step::clip_gradients() {
  std::vector<double> norms(parts_.parameters.size());
  for (const auto& part : trained_) {
    const std::vector<double> own = part->replica().gradient_norms();
    for (size_t i = 0; i < own.size(); ++i)
      norms[parts_.parameters.at(part->replica().parameters().names[i])] = own[i];
  }
  parts_.grid->add_up(norms);
  const double norm = parallel::joint_norm(norms);
  if (norm <= clip_norm_) return;
  for (const auto& part : trained_) part->replica().scale_gradients(clip_norm_ / norm);
}

}  // namespace lockstep::train
