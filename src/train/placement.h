#pragma once

#include <c10/core/Device.h>
#include <torch/nn/module.h>

#include "recipe/recipe.h"

namespace lockstep::train {

/// The device of a worker: number `local_rank` of the recipe's kind. Makes virtual devices if that
/// is their kind. Throws BadInput for a limit of memory that cannot be had.
c10::Device device_for(const Recipe& recipe, int local_rank);

/// Where a model is; the CPU if it has neither parameters nor buffers.
c10::Device device_of(const torch::nn::Module& model);

}  // namespace lockstep::train
