#include "train/placement.h"

#include "base/units.h"
#include "lockstep/error.h"
#include "lockstep/virtual_device.h"
#include "virtual_devices/accounts.h"

namespace lockstep::train {
namespace {

c10::Device made_device(const Recipe& recipe, int local_rank) {
  const int64_t limit = memory_limit(recipe);
  if (recipe.device.kind == "virtual") {
    make_virtual_devices({.count = local_rank + 1, .memory_bytes = limit});
    return virtual_device(local_rank);
  }
  limit_cpu_memory(0);
  return c10::kCPU;
}

}  // namespace

c10::Device device_for(const Recipe& recipe, int local_rank) {
  const c10::Device device = made_device(recipe, local_rank);
  // Threads of their own compute backward passes on devices.
  virtual_devices::account_of(device)->set_use_of_other_threads(MemoryUse::activations);
  return device;
}

int64_t memory_limit(const Recipe& recipe) {
  return recipe.device.memory.empty() ? 0 : parse_bytes(recipe.device.memory);
}

void limit_memory(c10::Device device, const Recipe& recipe) {
  if (device.is_cpu()) limit_cpu_memory(memory_limit(recipe));
}

c10::Device device_of(const torch::nn::Module& model) {
  for (const torch::Tensor& parameter : model.parameters()) return parameter.device();
  for (const torch::Tensor& buffer : model.buffers()) return buffer.device();
  return c10::kCPU;
}

}  // namespace lockstep::train
