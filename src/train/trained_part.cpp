#include "train/trained_part.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <string>
#include <utility>

#include "train/placement.h"

namespace lockstep::train {
namespace {

using parallel::FlatOptimizer;
using parallel::NeededGradients;
using parallel::ReplicaOptions;

// Norms need whole gradients: the order in which squares are added is the same for any division.
NeededGradients needed_gradients(const Recipe& recipe) {
  return recipe.parallel.zero && recipe.optimizer.clip_norm == 0 ? NeededGradients::own_slice
                                                                 : NeededGradients::all;
}

ReplicaOptions replica_options(const Recipe& recipe, const collective::Shards& shards) {
  const std::string& compress = recipe.train.compress;
  ReplicaOptions options{.shards = shards,
                         .pieces = recipe.train.accumulate,
                         .needed = needed_gradients(recipe),
                         .parameters = recipe.parallel.zero
                                           ? ReplicaOptions::ParameterMemory::exchanged
                                           : ReplicaOptions::ParameterMemory::flat,
                         .buffers = ReplicaOptions::BufferMode::mean_over_shards};
  if (compress == "f16") options.compress = Compress::f16;
  if (compress == "bf16") options.compress = Compress::bf16;
  if (compress == "power_sgd")
    options.hook = power_sgd(
        {.rank = recipe.train.compress_rank, .seed = static_cast<uint64_t>(recipe.train.seed)});
  return options;
}

}  // namespace

TrainedPart::TrainedPart(const Recipe& recipe, parallel::ModelPart part, parallel::PartLinks links,
                         const World& replicas, const collective::Shards& shards,
                         parallel::Replica::OnGradient on_gradient,
                         std::shared_ptr<parallel::DeviceMirrors> mirrors)
    : part_(std::move(part)),
      device_(device_of(part_.module())),
      links_(std::move(links)),
      mirrors_(std::move(mirrors)),
      on_gradient_(std::move(on_gradient)),
      replica_(part_.module(), replicas, replica_options(recipe, shards), on_gradient_),
      optimizer_(
          replica_, recipe.optimizer,
          recipe.parallel.zero ? FlatOptimizer::State::divided : FlatOptimizer::State::whole),
      got_gradient_(replica_.parameters().size()) {}

void TrainedPart::take_from_mirror(int micro_batch, parallel::ShardStatistics::Shard shard) {
  replica_.begin_forward(micro_batch, shard);
  if (shard == parallel::ShardStatistics::Shard::has_samples) mirrors_->give_buffers(micro_batch);
  replica_.begin_backward(micro_batch);
  std::vector<torch::Tensor> gradients = mirrors_->take_gradients(micro_batch);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    replica_.parameters().tensors[i].mutable_grad() = std::move(gradients[i]);
    on_gradient_(i);
  }
  mirrors_->wait();
}

void TrainedPart::finish_group(int micro_batch) const {
  if (mirrors_ && mirrors_->ends_group(micro_batch, replica_.passes())) mirrors_->wait();
}

void TrainedPart::receive_input(int micro_batch) {
  const MemoryScope scope(MemoryUse::activations);
  parallel::StageMessage message = links_.inputs->receive();
  under_way_[micro_batch] = {.inputs = std::move(message.tensors),
                             .generator = std::move(message.generator),
                             .notes = message.notes};
}

void TrainedPart::send_output(int micro_batch, int64_t notes) {
  const MicroBatch& own = under_way_.at(micro_batch);
  links_.outputs->send({own.outputs, own.generator, notes | own.notes});
}

void TrainedPart::receive_gradient(int micro_batch) {
  const MemoryScope scope(MemoryUse::activations);
  under_way_.at(micro_batch).gradients = links_.output_gradients->receive().tensors;
}

void TrainedPart::backward_from_gradients(int micro_batch) {
  const MicroBatch& own = under_way_.at(micro_batch);
  torch::autograd::variable_list roots, gradients;
  auto gradient = own.gradients.begin();
  for (const auto& [name, output] : own.outputs) {
    if (!output.requires_grad()) continue;
    if (const torch::Tensor& received = (gradient++)->second; received.defined()) {
      roots.push_back(output);
      gradients.push_back(received);
    }
  }
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
}

void TrainedPart::send_gradient(int micro_batch) {
  std::vector<Tensors::Item> gradients;
  for (const auto& [name, input] : under_way_.at(micro_batch).inputs)
    if (input.requires_grad()) gradients.emplace_back(name, input.grad());
  links_.gradients->send({Tensors(std::move(gradients))});
  forget(micro_batch);
}

void TrainedPart::finish_sending() {
  if (links_.outputs) links_.outputs->finish();
  if (links_.gradients) links_.gradients->finish();
}

void TrainedPart::roll_back() {
  under_way_.clear();
  if (mirrors_) mirrors_->forget_gradients();
  replica_.roll_back();
}

}  // namespace lockstep::train
