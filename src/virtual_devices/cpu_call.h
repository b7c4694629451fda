#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace lockstep::virtual_devices {

/// Computes any operator on a virtual device: calls LibTorch's kernel for CPUs on aliases of the
/// device's tensors.
void call_cpu_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, c10::Stack* stack);

}  // namespace lockstep::virtual_devices
