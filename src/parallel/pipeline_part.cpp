#include "parallel/pipeline_part.h"

#include <torch/types.h>

#include <utility>

#include "device/memory_account.h"
#include "parallel/arrival.h"
#include "parallel/distinct_tensors.h"
#include "parallel/outgoing.h"

namespace lockstep::parallel {
namespace {

// Those of a received message's tensors, each under its first name.
Tensors read_only_of(const Tensors& received, const std::vector<bool>& read_only) {
  std::vector<Tensors::Item> items;
  int64_t next = 0;
  for (const auto& [name, tensor] : DistinctTensors(received).names) {
    if (tensor != next) continue;  // another name, or undefined
    ++next;
    if (!read_only.empty() && read_only[static_cast<size_t>(tensor)])
      items.emplace_back(name, received[name]);
  }
  return Tensors(std::move(items));
}

}  // namespace

PipelinePart::PipelinePart(ModelPart part, PartLinks links, const World& replicas,
                           const ReplicaOptions& options, Replica::OnGradient on_gradient,
                           std::shared_ptr<DeviceMirrors> mirrors)
    : part_(std::move(part)),
      device_(part_.device()),
      links_(std::move(links)),
      mirrors_(std::move(mirrors)),
      on_gradient_(std::move(on_gradient)),
      replica_(part_.module(), replicas, options, on_gradient_) {}

// An objective may read the inputs, and elsewhere it has others.
void PipelinePart::take_samples(int micro_batch, Batch samples) {
  MicroBatch& own = under_way_[micro_batch];
  if (part_.is_first() && !part_.is_last() && !links_.last_is_here) own.read_only = samples.inputs;
  own.samples = std::move(samples);
}

void PipelinePart::receive_input(int micro_batch) {
  const MemoryScope scope(MemoryUse::activations);
  StageMessage message = links_.inputs->receive();
  // So that how much memory is in use depends on the schedule and not on how late the other is.
  links_.gradients->release(message.received);
  GraphInputs inputs(message.tensors);
  Tensors read_only = read_only_of(inputs.tensors(), message.read_only);
  under_way_[micro_batch] = {.inputs = std::move(inputs),
                             .read_only = std::move(read_only),
                             .generator = std::move(message.generator),
                             .notes = message.notes};
}

void PipelinePart::send_output(int micro_batch, int64_t notes) {
  const MicroBatch& own = under_way_.at(micro_batch);
  StageMessage message = outgoing(part_, own.outputs, own.read_only);
  message.generator = own.generator;
  message.notes = notes | own.notes;
  message.received = gradients_received_;
  links_.outputs->send(std::move(message));
}

void PipelinePart::receive_gradient(int micro_batch) {
  const MemoryScope scope(MemoryUse::activations);
  under_way_.at(micro_batch).gradients = links_.output_gradients->receive().tensors;
  ++gradients_received_;
}

void PipelinePart::backward_from_gradients(int micro_batch) {
  const MicroBatch& own = under_way_.at(micro_batch);
  std::vector<torch::Tensor> roots, gradients;
  auto gradient = own.gradients.begin();
  for (const torch::Tensor& output : DistinctTensors(own.outputs).tensors) {
    if (!output.requires_grad()) continue;
    if (const torch::Tensor& received = (gradient++)->second; received.defined()) {
      roots.push_back(output);
      gradients.push_back(received);
    }
  }
  backward_together(std::move(roots), gradients);
}

void PipelinePart::send_gradient(int micro_batch) {
  links_.gradients->send({under_way_.at(micro_batch).inputs.gradients()});
  forget(micro_batch);
}

void PipelinePart::finish_sending() {
  if (links_.outputs) links_.outputs->finish();
  if (links_.gradients) links_.gradients->finish();
}

void PipelinePart::take_from_mirror(int micro_batch, ShardStatistics::Shard shard) {
  replica_.begin_forward(micro_batch, shard);
  if (shard == ShardStatistics::Shard::has_samples) mirrors_->give_buffers(micro_batch);
  replica_.begin_backward(micro_batch);
  std::vector<torch::Tensor> gradients = mirrors_->take_gradients(micro_batch);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    replica_.parameters().tensors[i].mutable_grad() = std::move(gradients[i]);
    on_gradient_(i);
  }
  mirrors_->wait();
}

void PipelinePart::finish_group(int micro_batch) const {
  if (mirrors_ && mirrors_->ends_group(micro_batch, replica_.passes())) mirrors_->wait();
}

void PipelinePart::roll_back() {
  under_way_.clear();
  if (mirrors_) mirrors_->forget_gradients();
  replica_.roll_back();
}

}  // namespace lockstep::parallel
