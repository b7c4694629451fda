// A step of a Pipeline: the schedule's actions on a batch, and what a batch must be.
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/model_error.h"
#include "device/memory_account.h"
#include "device/random.h"
#include "lockstep/error.h"
#include "parallel/generator.h"
#include "parallel/named_tensors.h"
#include "parallel/pipeline_state.h"

namespace lockstep {

using parallel::MicroBatch;
using parallel::PipelinePart;
using pipeline::Action;

namespace {

Tensors micro_batch_of(const Tensors& batch, int micro_batch, int count, c10::Device device) {
  const torch::NoGradGuard no_grad;
  const int64_t samples = batch.begin()->second.size(0) / count;
  return parallel::moved(parallel::narrowed(batch, micro_batch * samples, samples), device);
}

// Undefined: there are none.
int64_t samples_of(const Tensors& batch) {
  const bool has_any = batch.size() > 0 && batch.begin()->second.defined();
  return has_any && batch.begin()->second.dim() > 0 ? batch.begin()->second.size(0) : 0;
}

}  // namespace

class Pipeline::State::LossPasses final : public parallel::Passes {
 public:
  LossPasses(State& state, const Tensors& inputs, const Tensors& targets, const LossFunction& loss)
      : state_(state), inputs_(inputs), targets_(targets), loss_(loss) {}

  bool has_samples(int /*micro_batch*/) const override { return true; }
  uint64_t seed(int64_t piece) const override {
    return RandomStream(Purpose::forward, state_.options_.seed, state_.steps_, piece).next();
  }
  Batch samples(PipelinePart& part, int micro_batch) override {
    const int count = state_.options_.micro_batches;
    Batch batch;
    if (part.part().is_first())
      batch.inputs = micro_batch_of(inputs_, micro_batch, count, part.device());
    if (part.part().is_last())
      batch.targets = micro_batch_of(targets_, micro_batch, count, part.device());
    return batch;
  }
  Tensors outputs(PipelinePart& part, const Tensors& inputs, int /*micro_batch*/) override {
    return part.part().forward(inputs);
  }
  Loss loss(const MicroBatch& own, int /*micro_batch*/) override {
    if (!state_.has_first()) state_.require_same_samples(own.notes, samples_of(targets_));
    const torch::Tensor loss = value_of_loss(own);
    if (!loss.defined() || loss.numel() != 1 || !loss.requires_grad())
      throw BadInput(
          "Pipeline's loss function returned {}: expected a tensor with one number that depends on "
          "the outputs; take the mean, and do not detach it",
          !loss.defined()     ? "an undefined tensor"
          : loss.numel() != 1 ? fmt::format("a tensor of shape [{}]", fmt::join(loss.sizes(), ", "))
                              : "a number without gradient");
    return {loss, 1};
  }
  void backward(PipelinePart& part, int micro_batch) override {
    state_.in_backward_pass_ = true;
    if (part.part().is_last())
      part.micro_batch(micro_batch).loss.sum.backward();
    else
      part.backward_from_gradients(micro_batch);
    state_.in_backward_pass_ = false;
  }
  // Its value is read at the end of the step: a device may not have computed it yet.
  void score(PipelinePart& part, int micro_batch) override {
    state_.losses_.push_back(part.micro_batch(micro_batch).loss.sum.detach());
  }
  // The samples of x: the worker with the last stage compares them with those of y.
  int64_t notes() const override { return state_.has_first() ? samples_of(inputs_) : 0; }

 private:
  torch::Tensor value_of_loss(const MicroBatch& own) const {
    try {
      return loss_(own.outputs, own.samples.targets);
    } catch (c10::Error& error) {
      error.add_context("in the loss function");
      throw;
    }
  }

  State& state_;
  const Tensors& inputs_;
  const Tensors& targets_;
  const LossFunction& loss_;
};

double Pipeline::State::step(const Tensors& inputs, const Tensors& targets,
                             const LossFunction& loss) {
  double mean = 0;
  fail_stop_->check();
  // No other worker has begun a step: this one may go on with another batch.
  if (world_.size() == 1) check_batch(inputs, targets);
  fail_stop_->run([&] {
    const parallel::KeptGenerator generator;
    const torch::AutoGradMode records(true);
    check_batch(inputs, targets);
    begin_step();
    LossPasses passes(*this, inputs, targets, loss);
    for (const Action& action : actions_) perform(action, passes);
    mean = finish_step();
  });
  return mean;
}

void Pipeline::State::perform(const Action& action, LossPasses& passes) {
  try {
    parallel::perform(action, part(action.part), passes);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(error.device(), error.asked(), error.in_use(), error.limit(),
                      fmt::format("{}; this was {}: more PipelineOptions::micro_batches, more "
                                  "stages, another split or recompute need less memory",
                                  error.what(), described(action)));
  } catch (const c10::Error& error) {
    throw ModelError(fmt::format("Pipeline::step on rank {}: {}; this was {}", world_.rank(),
                                 error.what_without_backtrace(), described(action)));
  }
}

// "stage 0 (layers 0 to 1), in the forward pass of a micro-batch of 4 samples"
std::string Pipeline::State::described(const Action& action) {
  PipelinePart& own = part(action.part);
  const MicroBatch& micro_batch = own.micro_batch(action.micro_batch);
  int64_t samples = samples_of(micro_batch.samples.inputs);
  if (samples == 0) samples = samples_of(micro_batch.samples.targets);
  if (samples == 0) samples = samples_of(micro_batch.inputs.tensors());
  return fmt::format(
      "stage {} ({}), in the {} pass of a micro-batch{}", grid_.shape().stage_of(action.part),
      own.part().describe(), action.kind == Action::Kind::backward ? "backward" : "forward",
      samples == 0   ? ""
      : samples == 1 ? " of 1 sample (PipelineOptions::micro_batches: fewer are larger)"
                     : fmt::format(" of {} samples", samples));
}

namespace {

void check_samples(const char* what, const char* stage, const Tensors& tensors, int rank,
                   int micro_batches) {
  const int64_t samples = samples_of(tensors);
  for (const auto& [name, tensor] : tensors)
    if (!tensor.defined() || tensor.dim() == 0 || tensor.size(0) != samples)
      throw BadInput(
          "Pipeline::step on rank {}: {}{} has no samples, or another number of them, but this "
          "worker has the {} stage and needs them",
          rank, what, name.empty() ? "" : fmt::format(" ('{}')", name), stage);
  if (samples == 0 || samples % micro_batches != 0)
    throw BadInput(
        "Pipeline::step: a batch of {} samples ({}) cannot be divided into {} equal micro-batches "
        "(PipelineOptions::micro_batches); pass a multiple of {}, and leave out an epoch's last "
        "batch if it is smaller",
        samples, what, micro_batches, micro_batches);
}

}  // namespace

void Pipeline::State::check_batch(const Tensors& inputs, const Tensors& targets) const {
  const int rank = world_.rank(), count = options_.micro_batches;
  if (has_first()) check_samples("x", "first", inputs, rank, count);
  if (has_last()) check_samples("y", "last", targets, rank, count);
  if (has_first() && has_last()) require_same_samples(samples_of(inputs), samples_of(targets));
}

void Pipeline::State::require_same_samples(int64_t of_inputs, int64_t of_targets) const {
  if (of_inputs != of_targets)
    throw BadInput(
        "Pipeline::step on rank {}: x has {} samples, y has {}: all workers of a pipeline must "
        "pass "
        "x and y of the same batch",
        world_.rank(), of_inputs, of_targets);
}

PipelinePart& Pipeline::State::part(int number) {
  const std::vector<int>& numbers = grid_.parts();
  return *parts_[static_cast<size_t>(std::ranges::find(numbers, number) - numbers.begin())];
}

// Gradients of the last step are views of the memory to which this step's are written.
void Pipeline::State::begin_step() {
  losses_.clear();
  for (const auto& part : parts_) {
    part->replica().check_model();
    part->replica().notice_loaded_weights();
    for (const torch::Tensor& parameter : part->replica().parameters().tensors)
      parameter.mutable_grad().reset();
  }
}

double Pipeline::State::finish_step() {
  if (loss_sum_)
    for (size_t i = 0; i < losses_.size(); ++i) {
      const auto pass = static_cast<int>(i);
      loss_sum_->slot(pass)[0] = losses_[i].item<double>();
      loss_sum_->fold(pass);
    }
  const collective::Pending sum = loss_sum_ ? loss_sum_->start() : collective::Pending();
  for (const auto& part : parts_) {
    part->finish_sending();
    part->replica().finish(part->replica().pieces());
    const parallel::Parameters& parameters = part->replica().parameters();
    for (size_t i = 0; i < parameters.size(); ++i)
      parameters.tensors[i].mutable_grad() = part->replica().gradient(i);
  }
  sum.wait();
  const auto pieces = static_cast<double>(parts_.front()->replica().pieces());
  std::vector<double> mean = {loss_sum_ ? loss_sum_->result()[0] / pieces : 0};
  grid_.share_from_last(mean);
  ++steps_;
  return mean.front();
}

void Pipeline::State::take_gradient(size_t part, size_t parameter) {
  if (!in_backward_pass_)
    throw BadInput(
        "a backward pass through a Pipeline's parameters outside of Pipeline::step, or inside a "
        "layer or the loss function: its gradients would be mixed up with the step's; add the term "
        "to the loss, or compute gradients by torch::autograd::grad");
  parts_[part]->replica().take(parameter, parallel::Replica::Gradient::dropped);
}

}  // namespace lockstep
