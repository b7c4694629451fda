#pragma once

#include <torch/torch.h>

#include "lockstep/virtual_device.h"

namespace lockstep {

constexpr int64_t kDeviceBytes = int64_t{256} << 20;

/// One of the three devices of all tests in this program.
inline torch::Device device(int index) {
  make_virtual_devices({.count = 3, .memory_bytes = kDeviceBytes});
  return virtual_device(index);
}

}  // namespace lockstep
