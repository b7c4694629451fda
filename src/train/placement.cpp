#include "train/placement.h"

#include "base/units.h"
#include "lockstep/error.h"
#include "lockstep/virtual_device.h"

namespace lockstep::train {

c10::Device device_for(const Recipe& recipe, int local_rank) {
  const Recipe::DeviceSection& device = recipe.device;
  const int64_t memory = device.memory.empty() ? 0 : parse_bytes(device.memory);
  if (device.kind == "virtual") {
    make_virtual_devices({.count = local_rank + 1, .memory_bytes = memory});
    return virtual_device(local_rank);
  }
  if (memory > 0)
    throw BadInput(
        "device.memory = {}: only virtual devices have a limit; set device.kind = virtual",
        device.memory);
  return c10::kCPU;
}

c10::Device device_of(const torch::nn::Module& model) {
  for (const torch::Tensor& parameter : model.parameters()) return parameter.device();
  for (const torch::Tensor& buffer : model.buffers()) return buffer.device();
  return c10::kCPU;
}

}  // namespace lockstep::train
