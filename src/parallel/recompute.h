#pragma once

#include <vector>

#include "lockstep/sequential_model.h"

namespace lockstep::parallel {

/// layer.forward(inputs), of which only the inputs are kept: the backward pass computes the layer
/// again, with the same random numbers, and leaves `buffers` as they are. The layer's parameters
/// must not be used by other layers, since their gradients are complete after it. Throws BadInput
/// if the layer changes its inputs in place.
Tensors recomputed(const ModelLayer& layer, const std::vector<torch::Tensor>& buffers,
                   const Tensors& inputs);

}  // namespace lockstep::parallel
