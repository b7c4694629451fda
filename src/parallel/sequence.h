#pragma once

#include <torch/nn/module.h>

#include <memory>

#include "lockstep/sequential_model.h"

namespace lockstep::parallel {

/// The model as one that has layers: a SequentialModel itself, or the modules of a
/// torch::nn::Sequential under the names that they have there. Throws BadInput, with what to do,
/// for others and for models without layers.
std::shared_ptr<SequentialModel> sequence_of(const std::shared_ptr<torch::nn::Module>& model);

}  // namespace lockstep::parallel
