#pragma once

#include <functional>
#include <vector>

#include "lockstep/sequential_model.h"
#include "lockstep/world.h"
#include "parallel/model_part.h"
#include "pipeline/split.h"

namespace lockstep::parallel {

/// By layer: what a forward and a backward pass over `inputs`, a micro-batch on the model's device,
/// costs in seconds and, if that device's memory is counted, in bytes. `state` has only what
/// kernels keep for the layer. Modules train meanwhile; then their modes, buffers and gradients are
/// as they were, and so are the random numbers that follow.
std::vector<pipeline::LayerCost> measure_layers(const std::shared_ptr<SequentialModel>& model,
                                                const Tensors& inputs, Activations activations);

/// What rank 0 measures, on all workers. Collective.
std::vector<pipeline::LayerCost> costs_of_first(
    World& world, const std::function<std::vector<pipeline::LayerCost>()>& measure);

}  // namespace lockstep::parallel
