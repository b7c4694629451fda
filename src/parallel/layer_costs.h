#pragma once

#include <functional>
#include <vector>

#include "lockstep/sequential_model.h"
#include "lockstep/world.h"
#include "parallel/model_part.h"
#include "pipeline/split.h"

namespace lockstep::parallel {

/// By layer: what a forward and a backward pass over `inputs`, a micro-batch on the host, costs in
/// seconds and, if the CPU's memory is counted, in bytes. `state` has only what kernels keep for
/// the layer. The model's buffers and gradients are left as they are; random numbers are drawn.
std::vector<pipeline::LayerCost> measure_layers(const std::shared_ptr<SequentialModel>& model,
                                                const Tensors& inputs, Activations activations);

/// What rank 0 measures, on all workers. Collective.
std::vector<pipeline::LayerCost> costs_of_first(
    World& world, const std::function<std::vector<pipeline::LayerCost>()>& measure);

}  // namespace lockstep::parallel
