#pragma once

#include <vector>

#include "lockstep/sequential_model.h"
#include "parallel/model_part.h"
#include "pipeline/split.h"

namespace lockstep::parallel {

/// By layer: what a forward and a backward pass over `inputs`, a micro-batch on the host, costs in
/// seconds and, if the CPU's memory is counted, in bytes. `state` has only what kernels keep for
/// the layer. The model's buffers and gradients are left as they are; random numbers are drawn.
std::vector<pipeline::LayerCost> measure_layers(const std::shared_ptr<SequentialModel>& model,
                                                const Tensors& inputs, Activations activations);

}  // namespace lockstep::parallel
