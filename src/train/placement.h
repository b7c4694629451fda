#pragma once

#include <c10/core/Device.h>
#include <torch/nn/module.h>

#include "recipe/recipe.h"

namespace lockstep::train {

/// The device of a worker: number `local_rank` of the visible ones of the recipe's kind, of which
/// `devices` selects some (see device/visible.h). Makes virtual devices if that is their kind, and
/// counts the device's memory from now on. Throws BadInput if there are too few, and for a limit of
/// memory that cannot be had.
c10::Device device_for(const Recipe& recipe, int local_rank, const std::string& devices = {});

/// The recipe's limit of a device's memory, in bytes; 0: none.
int64_t memory_limit(const Recipe& recipe);

/// From now on the CPU has the recipe's limit. Other devices have it from the start: what is made
/// on the host first and then moved, as a model, is not theirs.
void limit_memory(c10::Device device, const Recipe& recipe);

/// Where a model is; the CPU if it has neither parameters nor buffers.
c10::Device device_of(const torch::nn::Module& model);

}  // namespace lockstep::train
