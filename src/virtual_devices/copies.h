#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::virtual_devices {

/// Copies between devices, or between a device and the host. As with GPUs, the host waits for a
/// copy unless it is `non_blocking`; then a copy from or to pinned memory is asynchronous, and what
/// is copied from other host memory is taken before the call returns.
at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool non_blocking);

}  // namespace lockstep::virtual_devices
