#pragma once

#include <cstdint>

#include "lockstep/virtual_device.h"

namespace lockstep {

constexpr int64_t kDeviceBytes = int64_t{64} << 20;

#ifdef LOCKSTEP_TEST_ASYNCHRONOUS
inline const VirtualDeviceOptions kDevices = {.count = 4,
                                              .memory_bytes = kDeviceBytes,
                                              .mode = VirtualDeviceOptions::Mode::asynchronous,
                                              .copy_bandwidth = 1e8,
                                              .copy_latency = 1e-4,
                                              .largest_delay = 2e-4};
#else
inline const VirtualDeviceOptions kDevices = {.count = 4, .memory_bytes = kDeviceBytes};
#endif

/// All tests of this program share these devices, made before the first backward pass.
[[maybe_unused]] inline const int devices_made =
    (make_virtual_devices(kDevices), virtual_device_count());

}  // namespace lockstep
