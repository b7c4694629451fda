#pragma once

#include <torch/torch.h>

#include "lockstep/virtual_device.h"

namespace lockstep {

constexpr int64_t kDeviceBytes = int64_t{256} << 20;

/// One of the three devices of all tests in this program.
inline torch::Device device(int index) {
#ifdef LOCKSTEP_TEST_ASYNCHRONOUS
  constexpr auto kMode = VirtualDeviceOptions::Mode::asynchronous;
#else
  constexpr auto kMode = VirtualDeviceOptions::Mode::inlined;
#endif
  make_virtual_devices({.count = 3, .memory_bytes = kDeviceBytes, .mode = kMode});
  return virtual_device(index);
}

}  // namespace lockstep
