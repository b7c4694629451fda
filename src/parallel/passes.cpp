// How a worker performs the actions of a schedule. A micro-batch is *under way* in a part from its
// forward until after its backward pass. Invariant: the random numbers of a micro-batch and the
// order in which gradients and buffers are added depend neither on the schedule nor on the stages.
#include "parallel/passes.h"

#include <torch/utils.h>

#include <optional>
#include <string>

#include "device/memory_account.h"
#include "lockstep/error.h"
#include "parallel/changes_in_place.h"
#include "parallel/generator.h"
#include "pipeline/in_groups.h"
#include "pipeline/in_one_order.h"

namespace lockstep::parallel {
namespace {

using Kind = pipeline::Action::Kind;

// A part goes on with the random numbers where the one before it ended.
void seed_generator(const PipelinePart& part, const MicroBatch& own, int micro_batch,
                    const Passes& passes) {
  torch::manual_seed(passes.seed(part.replica().piece(micro_batch)));
  if (own.generator.defined()) set_generator_state(own.generator);
}

ShardStatistics::Shard shard_of(int micro_batch, const Passes& passes) {
  return passes.has_samples(micro_batch) ? ShardStatistics::Shard::has_samples
                                         : ShardStatistics::Shard::is_empty;
}

// Prepares a pass: buffers as at the start of the step, samples on their device.
void begin(PipelinePart& part, int micro_batch, Passes& passes) {
  part.replica().group().check();
  const bool is_mirrored = part.is_mirrored(micro_batch);
  if (!is_mirrored) part.replica().begin_forward(micro_batch, shard_of(micro_batch, passes));
  if (!passes.has_samples(micro_batch)) return;
  if (is_mirrored) part.mirrors()->replicate(micro_batch);
  const MemoryScope scope(MemoryUse::activations);
  if (part.part().is_first() || part.part().is_last())
    part.take_samples(micro_batch, passes.samples(part, micro_batch));
}

// Refuses a part that changes an input in place where others would have it unchanged.
Tensors outputs_of(PipelinePart& part, const Tensors& inputs, int micro_batch, Passes& passes) {
  const ChangesInPlace changes(part.micro_batch(micro_batch).read_only);
  Tensors outputs = passes.outputs(part, inputs, micro_batch);
  const std::optional<std::string> changed = changes.found();
  if (!changed) return outputs;
  const std::string name = changed->empty() ? "" : " '" + *changed + "'";
  if (part.part().is_first())
    throw BadInput(
        "the forward pass of {} changes the model's input{} in place: with stages on other workers "
        "or devices, the objective would get it unchanged; let the layer change x.clone()",
        part.part().describe(), name);
  throw BadInput(
      "the forward pass of {} changes its input{} in place, which shares memory with another "
      "tensor of the stage before: with stages, that one would not change with it; let the layer "
      "change x.clone()",
      part.part().describe(), name);
}

void forward(PipelinePart& part, int micro_batch, Passes& passes) {
  if (part.mirrors() == nullptr) begin(part, micro_batch, passes);
  if (!passes.has_samples(micro_batch)) return;
  const MemoryScope scope(MemoryUse::activations);
  MicroBatch& own = part.micro_batch(micro_batch);
  seed_generator(part, own, micro_batch, passes);
  const Tensors& inputs = part.part().is_first() ? own.samples.inputs : own.inputs.tensors();
  if (!part.part().is_last()) {
    const at::Tensor before = generator_state();
    own.outputs = outputs_of(part, inputs, micro_batch, passes);
    const at::Tensor after = generator_state();
    if (own.generator.defined() || !after.equal(before)) own.generator = after;
    return;
  }
  own.outputs = outputs_of(part, inputs, micro_batch, passes);
  own.loss = passes.loss(own, micro_batch);
}

void finish(PipelinePart& part, int micro_batch, Passes& passes) {
  if (part.part().is_last()) passes.score(part, micro_batch);
  part.replica().end_backward();
  if (part.part().is_first()) part.forget(micro_batch);
}

void backward(PipelinePart& part, int micro_batch, Passes& passes) {
  if (!part.is_mirrored(micro_batch)) part.replica().begin_backward(micro_batch);
  if (passes.has_samples(micro_batch)) {
    const MemoryScope scope(MemoryUse::activations);
    passes.backward(part, micro_batch);
  }
  if (part.mirrors() == nullptr) finish(part, micro_batch, passes);
}

void collect(PipelinePart& part, int micro_batch, Passes& passes) {
  if (!part.is_mirrored(micro_batch)) return;
  const MemoryScope scope(MemoryUse::activations);
  part.take_from_mirror(micro_batch, shard_of(micro_batch, passes));
}

}  // namespace

void perform(const pipeline::Action& action, PipelinePart& part, Passes& passes) {
  const int micro_batch = action.micro_batch;
  // Forward and backward passes of no samples count, too.
  if ((action.receives() || action.sends()) && !passes.has_samples(micro_batch)) return;
  switch (action.kind) {
    case Kind::receive_input:
      return part.receive_input(micro_batch);
    case Kind::forward:
      return forward(part, micro_batch, passes);
    case Kind::send_output:
      return part.send_output(micro_batch, passes.notes());
    case Kind::receive_gradient:
      return part.receive_gradient(micro_batch);
    case Kind::backward:
      backward(part, micro_batch, passes);
      return part.finish_group(micro_batch);
    case Kind::send_gradient:
      return part.send_gradient(micro_batch);
    case Kind::scatter:
      begin(part, micro_batch, passes);
      return part.finish_group(micro_batch);
    case Kind::collect:
      return collect(part, micro_batch, passes);
    case Kind::finish:
      return finish(part, micro_batch, passes);
  }
}

std::vector<pipeline::Action> actions_of(const std::string& schedule, const Grid& grid,
                                         int micro_batches, size_t devices) {
  if (devices > 0) return pipeline::in_groups(micro_batches, static_cast<int>(devices));
  pipeline::PipelineShape shape = grid.shape();
  shape.micro_batches = micro_batches;
  const pipeline::PipelineSchedule made =
      make_schedule(pipeline::pipeline_schedules().at(schedule), shape);
  return grid.is_whole() ? in_one_order(made)
                         : made.actions[static_cast<size_t>(grid.parts().front())];
}

double clip_gradients(const std::vector<PipelinePart*>& parts,
                      const std::map<std::string, size_t>& positions, Grid& grid, double largest) {
  std::vector<double> norms(positions.size());
  for (const PipelinePart* part : parts) {
    const std::vector<double> own = part->replica().gradient_norms();
    for (size_t i = 0; i < own.size(); ++i)
      norms[positions.at(part->replica().parameters().names[i])] = own[i];
  }
  grid.add_up(norms);
  const double norm = joint_norm(norms);
  if (norm <= largest) return norm;
  for (PipelinePart* part : parts) part->replica().scale_gradients(largest / norm);
  return norm;
}

}  // namespace lockstep::parallel
