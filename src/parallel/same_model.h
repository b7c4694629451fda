#pragma once

#include <torch/nn/module.h>

#include "collective/communicator.h"

namespace lockstep::parallel {

/// Collective: throws Mismatch with the first parameter or buffer whose name, shape or type (for
/// parameters also strides) differs between ranks.
void require_same_model(const torch::nn::Module& model, collective::Communicator& group);

}  // namespace lockstep::parallel
