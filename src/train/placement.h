#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace lockstep::train {

/// The devices of a worker, one for each of `stages`: those that come after the devices of workers
/// with lower local ranks, of the visible ones of the recipe's kind, of which `devices` selects
/// some (see device/visible.h); with parallel.mode = "dp" all of these. On the CPU all are the CPU.
/// Makes virtual devices if that is their kind, and counts the devices' memory from now on. Throws
/// BadInput if there are too few, and for a limit of memory that cannot be had.
std::vector<c10::Device> devices_for(const Recipe& recipe, int local_rank, int stages,
                                     const std::string& devices = {});
/// The device of a worker with one stage.
c10::Device device_for(const Recipe& recipe, int local_rank, const std::string& devices = {});

/// The recipe's limit of a device's memory, in bytes; 0: none.
int64_t memory_limit(const Recipe& recipe);

/// From now on the CPU has the recipe's limit. Other devices have it from the start: what is made
/// on the host first and then moved, as a model, is not theirs.
void limit_memory(c10::Device device, const Recipe& recipe);

}  // namespace lockstep::train
