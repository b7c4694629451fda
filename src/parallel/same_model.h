#pragma once

#include <torch/nn/module.h>

#include "collective/communicator.h"

namespace lockstep::parallel {

/// Collective: throws Mismatch with the first parameter or buffer whose name, shape or type, or
/// parameter whose strides, differ between ranks.
void require_same_model(const torch::nn::Module& model, collective::Communicator& group);

/// Collective: gives all ranks `root`'s parameters.
void broadcast_parameters(torch::nn::Module& model, collective::Communicator& group, int root);

}  // namespace lockstep::parallel
