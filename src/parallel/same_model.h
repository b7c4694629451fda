#pragma once

#include <torch/nn/module.h>

#include <string>

#include "collective/communicator.h"

namespace lockstep::parallel {

/// "Float 3x4", with strides where they are unusual, and ", not trained" where that is so.
std::string describe_parameter(const torch::Tensor& parameter);

/// Collective: throws Mismatch with the first parameter or buffer whose name, shape or type (for
/// parameters also strides) differs between ranks.
void require_same_model(const torch::nn::Module& model, collective::Communicator& group);

}  // namespace lockstep::parallel
