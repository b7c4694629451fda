// Each layer is computed several times, of which the fastest counts, and the first for memory: it
// is the one after which kernels keep what they have prepared.
#include "parallel/layer_costs.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "device/memory_account.h"
#include "parallel/device_streams.h"
#include "parallel/distinct_tensors.h"
#include "parallel/generator.h"
#include "parallel/graph_inputs.h"
#include "parallel/module_modes.h"
#include "virtual_devices/accounts.h"

namespace lockstep::parallel {
namespace {

constexpr int kRounds = 3;

// Inputs of a layer, without history.
Tensors inputs_of(const Tensors& outputs) {
  DistinctTensors inputs(outputs);
  for (at::Tensor& input : inputs.tensors)
    input = input.detach().set_requires_grad(input.is_floating_point());
  return GraphInputs(named(inputs.names, inputs.tensors)).tensors();
}

int64_t bytes_of(const Tensors& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : DistinctTensors(tensors).tensors)
    bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

void go_backward(const Tensors& outputs) {
  torch::autograd::variable_list roots, gradients;
  for (const at::Tensor& output : DistinctTensors(outputs).tensors) {
    if (!output.requires_grad()) continue;
    roots.push_back(output);
    gradients.push_back(torch::ones_like(output));
  }
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
}

// What is in use of a device's memory when it has computed all that it was asked for.
DeviceMemory memory_of_idle(c10::Device device) {
  synchronize(device);
  const MemoryAccount* const account = virtual_devices::account_of(device);
  return account == nullptr ? DeviceMemory() : account->figures();
}

// Returns the layer's outputs.
Tensors pass_through(const ModelPart& layer, const Tensors& inputs, c10::Device device,
                     pipeline::LayerCost& cost) {
  if (MemoryAccount* const account = virtual_devices::account_of(device)) account->forget_peak();
  const DeviceMemory before = memory_of_idle(device);
  const Stopwatch stopwatch;
  Tensors outputs = layer.forward(inputs);
  const int64_t after_forward = memory_of_idle(device).in_use;
  go_backward(outputs);
  const DeviceMemory after = memory_of_idle(device);
  cost.seconds = stopwatch.seconds();
  cost.inputs = bytes_of(inputs);
  cost.state = after.now[MemoryUse::workspace] - before.now[MemoryUse::workspace];
  cost.held = std::max<int64_t>(after_forward - before.in_use - cost.state, 0);
  cost.working = std::max<int64_t>(after.peak - before.in_use - cost.state - cost.held, 0);
  return outputs;
}

// Keeps a model's modes, buffers and gradients, and the random numbers that follow, from what is
// done meanwhile in training mode.
class KeptAsItIs {
 public:
  explicit KeptAsItIs(SequentialModel& model) : model_(model), training_(model, Mode::training) {
    for (const torch::Tensor& buffer : model.buffers()) buffers_.push_back(buffer.clone());
    for (const torch::Tensor& parameter : model.parameters())
      gradients_.push_back(std::exchange(parameter.mutable_grad(), torch::Tensor()));
  }
  KeptAsItIs(const KeptAsItIs&) = delete;
  KeptAsItIs& operator=(const KeptAsItIs&) = delete;
  ~KeptAsItIs() {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < buffers_.size(); ++i) model_.buffers()[i].copy_(buffers_[i]);
    for (size_t i = 0; i < gradients_.size(); ++i)
      model_.parameters()[i].mutable_grad() = gradients_[i];
  }

 private:
  SequentialModel& model_;
  const InMode training_;
  const KeptGenerator generator_;
  std::vector<torch::Tensor> buffers_, gradients_;
};

}  // namespace

std::vector<pipeline::LayerCost> measure_layers(const std::shared_ptr<SequentialModel>& model,
                                                const Tensors& inputs, Activations activations) {
  const MemoryScope scope(MemoryUse::activations);
  const KeptAsItIs kept(*model);
  const c10::Device device = ModelPart(model).device();
  std::vector<ModelPart> layers;  // kept for all rounds: in its first pass a layer is watched
  for (int64_t i = 0; i < std::ssize(model->layers()); ++i)
    layers.emplace_back(model, Range{i, i + 1}, activations);
  std::vector<pipeline::LayerCost> costs(layers.size());
  for (int round = 0; round < kRounds; ++round) {
    Tensors x = inputs;
    for (size_t i = 0; i < costs.size(); ++i) {
      pipeline::LayerCost cost;
      x = pass_through(layers[i], i == 0 ? x : inputs_of(x), device, cost);
      if (round == 0)
        costs[i] = cost;
      else
        costs[i].seconds = std::min(costs[i].seconds, cost.seconds);
    }
  }
  return costs;
}

std::vector<pipeline::LayerCost> costs_of_first(
    World& world, const std::function<std::vector<pipeline::LayerCost>()>& measure) {
  nlohmann::json rows = nlohmann::json::array();
  if (world.rank() == 0)
    for (const pipeline::LayerCost& cost : measure())
      rows.push_back({cost.seconds, cost.state, cost.inputs, cost.held, cost.working});
  std::vector<pipeline::LayerCost> costs;
  for (const nlohmann::json& row : nlohmann::json::parse(world.broadcast(rows.dump())))
    costs.push_back({row[0], row[1], row[2], row[3], row[4]});
  return costs;
}

}  // namespace lockstep::parallel
