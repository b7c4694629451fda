#pragma once

#include <c10/core/Device.h>

#include "device/memory_account.h"

namespace lockstep::virtual_devices {

/// The account of a device's memory; nullptr if it is not counted, as that of the CPU before
/// `limit_cpu_memory`, or of a GPU. Throws BadInput for a virtual device that does not exist.
MemoryAccount* account_of(c10::Device device);

}  // namespace lockstep::virtual_devices
