#include "lockstep/pipeline.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "device/memory_account.h"
#include "device/random.h"
#include "lockstep/error.h"
#include "parallel/generator.h"
#include "parallel/module_modes.h"
#include "parallel/named_tensors.h"
#include "parallel/outgoing.h"
#include "parallel/pipeline_state.h"
#include "parallel/sequence.h"

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
    const torch::Tensor loss = loss_(own.outputs, own.samples.targets);
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

 private:
  State& state_;
  const Tensors& inputs_;
  const Tensors& targets_;
  const LossFunction& loss_;
};

double Pipeline::State::step(const Tensors& inputs, const Tensors& targets,
                             const LossFunction& loss) {
  double mean = 0;
  fail_stop_->run([&] {
    const parallel::KeptGenerator generator;
    const torch::AutoGradMode records(true);
    if (has_first()) check_batch("x", "first", inputs);
    if (has_last()) check_batch("y", "last", targets);
    begin_step();
    LossPasses passes(*this, inputs, targets, loss);
    for (const Action& action : actions_) try {
        parallel::perform(action, part(action.part), passes);
      } catch (const OutOfMemory& error) {
        throw with_advice(error, action);
      }
    mean = finish_step();
  });
  return mean;
}

OutOfMemory Pipeline::State::with_advice(const OutOfMemory& error, const Action& action) {
  return {error.device(), error.asked(), error.in_use(), error.limit(),
          fmt::format("{}; this was stage {} ({}), in the {} pass of a micro-batch: more "
                      "PipelineOptions::micro_batches, more stages, another split or recompute "
                      "need less memory",
                      error.what(), grid_.shape().stage_of(action.part),
                      part(action.part).part().describe(),
                      action.kind == Action::Kind::backward ? "backward" : "forward")};
}

void Pipeline::State::check_batch(const char* what, const char* stage,
                                  const Tensors& tensors) const {
  const int count = options_.micro_batches;
  for (const auto& [name, tensor] : tensors)
    if (!tensor.defined() || tensor.dim() == 0 || tensor.size(0) != tensors.begin()->second.size(0))
      throw BadInput(
          "Pipeline::step on rank {}: {}{} has no samples, or another number of them, but this "
          "worker has the {} stage and needs them",
          world_.rank(), what, name.empty() ? "" : fmt::format(" ('{}')", name), stage);
  const int64_t samples = tensors.size() == 0 ? 0 : tensors.begin()->second.size(0);
  if (samples == 0 || samples % count != 0)
    throw BadInput(
        "Pipeline::step: a batch of {} samples ({}) cannot be divided into {} equal micro-batches "
        "(PipelineOptions::micro_batches); pass a multiple of {}, and leave out an epoch's last "
        "batch if it is smaller",
        samples, what, count, count);
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

Tensors Pipeline::State::forward(const Tensors& inputs) {
  Tensors outputs;
  fail_stop_->run([&] {
    const MemoryScope scope(MemoryUse::activations);
    const torch::NoGradGuard no_grad;
    const parallel::InMode evaluation(*model_, parallel::Mode::evaluation);
    outputs = grid_.shared_from_last(outputs_of(inputs));
  });
  return outputs;
}

// Pieces of the samples go through this worker's parts, and on to those of the next worker, which
// learns from the last piece's notes that it is the last.
Tensors Pipeline::State::outputs_of(const Tensors& inputs) {
  if (has_first() && (inputs.size() == 0 || !inputs.begin()->second.defined() ||
                      inputs.begin()->second.dim() == 0))
    throw BadInput(
        "Pipeline::forward on rank {}: x is undefined, empty or has no dimension of samples, but "
        "this worker has the first stage",
        world_.rank());
  const int64_t samples = has_first() ? inputs.begin()->second.size(0) : 0;
  const int64_t count = std::clamp<int64_t>(samples, 1, options_.micro_batches);
  std::vector<Tensors> pieces;
  bool is_last_piece = false;
  for (int64_t i = 0; !is_last_piece; ++i)
    for (const auto& part : parts_) {
      const parallel::PartLinks& links = part->links();
      parallel::StageMessage message;
      if (part->part().is_first()) {
        const Range piece = slice(samples, count, i);
        message.tensors =
            parallel::moved(parallel::narrowed(inputs, piece.begin, piece.size()), part->device());
        message.notes = i + 1 == count ? 1 : 0;
      } else {
        message = links.inputs->receive();
      }
      is_last_piece = message.notes != 0;
      const Tensors outputs = part->part().forward(message.tensors);
      if (part->part().is_last()) {
        pieces.push_back(parallel::moved(outputs, c10::kCPU));
        continue;
      }
      links.outputs->finish();  // so that at most one piece waits for its receiver
      const int64_t notes = message.notes;
      message = parallel::outgoing(part->part(), outputs);
      message.notes = notes;
      links.outputs->send(std::move(message));
    }
  for (const auto& part : parts_) part->finish_sending();
  return pieces.empty() ? Tensors() : parallel::concatenated(pieces);
}

double Pipeline::State::clip_gradient_norm(double largest) {
  std::vector<PipelinePart*> parts;
  for (const auto& part : parts_) parts.push_back(part.get());
  double norm = 0;
  fail_stop_->run([&] { norm = parallel::clip_gradients(parts, positions_, grid_, largest); });
  return norm;
}

Pipeline::Pipeline(const std::shared_ptr<torch::nn::Module>& model, World world,
                   PipelineOptions options)
    : state_(std::make_unique<State>(model, std::move(world), std::move(options))) {}

Pipeline::~Pipeline() = default;

std::vector<std::pair<std::string, torch::Tensor>> Pipeline::named_parameters() const {
  std::vector<std::pair<std::string, torch::Tensor>> all;
  for (const auto& part : state_->parts()) {
    const parallel::Parameters& own = part->replica().parameters();
    for (size_t i = 0; i < own.size(); ++i) all.emplace_back(own.names[i], own.tensors[i]);
  }
  return all;
}

std::vector<torch::Tensor> Pipeline::parameters() const {
  std::vector<torch::Tensor> all;
  for (const auto& [name, parameter] : named_parameters()) all.push_back(parameter);
  return all;
}

double Pipeline::run_step(const Tensors& inputs, const Tensors& targets, const LossFunction& loss) {
  return state_->step(inputs, targets, loss);
}

Tensors Pipeline::forward(const Tensors& inputs) {
  return state_->forward(inputs);
}

double Pipeline::clip_gradient_norm(double largest) {
  return state_->clip_gradient_norm(largest);
}

Tensors Pipeline::state() {
  return state_->whole_state();
}

void Pipeline::save_to(const std::string& path) {
  state_->save_to(path);
}

World Pipeline::replicas() const {
  return state_->replicas();
}

std::string Pipeline::split() const {
  return state_->split();
}

}  // namespace lockstep
