// What is in use at a time must be what a step has in use then, to the last scalar: `lockstep fit`
// promises that so much memory is enough. So the same tensors live as long as in
// parallel/passes.cpp and train/step.cpp.
#include "train/measured_pass.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "parallel/device_streams.h"
#include "parallel/distinct_tensors.h"
#include "parallel/generator.h"
#include "parallel/gradient_hooks.h"
#include "parallel/graph_inputs.h"
#include "parallel/parameters.h"
#include "train/user_code.h"
#include "virtual_devices/accounts.h"

namespace lockstep::train {
namespace {

using parallel::ModelPart;

int64_t in_use(c10::Device device) {
  return virtual_devices::account_of(device)->figures().in_use;
}

// What a forward pass leaves for the backward pass.
struct Forward {
  Tensors outputs;
  Loss loss;             ///< of the last part
  at::Tensor generator;  ///< where the part has drawn random numbers, for the part after it
};

Forward forward_pass(const ModelPart& part, const Tensors& inputs, const Batch& batch,
                     Objective& objective) {
  const CallPlace place = place_of_measured_pass(batch.samples);
  Forward made;
  if (part.is_last()) {
    made.outputs = outputs_of(part, inputs, objective.outputs(), place);
    made.loss = call_user_code("the objective's loss()", place,
                               [&] { return objective.loss(made.outputs, batch); });
    return made;
  }
  const at::Tensor before = parallel::generator_state();
  made.outputs = forward_of(part, inputs, place);
  const at::Tensor after = parallel::generator_state();
  if (!after.equal(before)) made.generator = after;
  return made;
}

void backward_pass(const Forward& made, const ModelPart& part, const CallPlace& place) {
  if (part.is_last()) {
    constexpr double kScale = 0.5;  // a step divides by the batch's items
    call_user_code("the backward pass", place, [&] { (made.loss.sum * kScale).backward(); });
    return;
  }
  torch::autograd::variable_list roots, gradients;
  for (const torch::Tensor& output : parallel::DistinctTensors(made.outputs).tensors) {
    if (!output.requires_grad()) continue;
    roots.push_back(output);
    gradients.push_back(torch::ones_like(output));
  }
  if (!roots.empty())
    call_user_code("the backward pass", place,
                   [&] { torch::autograd::backward(roots, gradients); });
}

}  // namespace

CallPlace place_of_measured_pass(int64_t samples) {
  return {"the measured pass of", samples, samples};
}

Tensors received(const Tensors& tensors) {
  parallel::DistinctTensors copies(tensors);
  for (torch::Tensor& tensor : copies.tensors)
    tensor = tensor.detach().clone().set_requires_grad(tensor.requires_grad());
  return named(copies.names, copies.tensors);
}

Tensors outputs_without_gradients(const ModelPart& layers, const Tensors& inputs, int64_t samples) {
  const torch::NoGradGuard no_grad;
  parallel::DistinctTensors leaves(forward_of(layers, inputs, place_of_measured_pass(samples)));
  for (torch::Tensor& tensor : leaves.tensors)
    tensor = tensor.detach().set_requires_grad(tensor.is_floating_point());
  return named(leaves.names, leaves.tensors);
}

fit::PassCost run_pass(const ModelPart& part, const Tensors& given, const Batch& batch,
                       Objective& objective, c10::Device device) {
  const MemoryScope scope(MemoryUse::activations);
  const parallel::Parameters parameters = parallel::trained_parameters(part.module());
  const parallel::GradientHooks hooks(
      parameters, [&](size_t i) { parameters.tensors[i].mutable_grad().reset(); });
  const int64_t before = in_use(device);
  fit::PassCost cost;
  Stopwatch stopwatch;
  const double processor_before = processor_seconds();
  const Tensors inputs = part.is_first() ? given : parallel::GraphInputs(received(given)).tensors();
  const Forward made = forward_pass(part, inputs, batch, objective);
  parallel::synchronize(device);
  cost.forward = stopwatch.restart();
  cost.held = in_use(device) - before;
  for (const torch::Tensor& output : parallel::DistinctTensors(made.outputs).tensors)
    cost.sent += static_cast<int64_t>(output.nbytes());
  if (made.generator.defined()) cost.drawn = static_cast<int64_t>(made.generator.nbytes());
  backward_pass(made, part, place_of_measured_pass(batch.samples));
  parallel::synchronize(device);
  cost.backward = stopwatch.seconds();
  cost.waited =
      std::max(cost.forward + cost.backward - (processor_seconds() - processor_before), 0.0);
  return cost;
}

}  // namespace lockstep::train
