#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include "device/pinned_memory.h"

namespace lockstep::virtual_devices {

c10::Allocator* pinned_allocator();

inline bool is_in_pinned_memory(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && device::is_pinned(tensor.storage().data_ptr().get());
}

/// A copy of a host tensor in pinned memory.
at::Tensor pinned_copy(const at::Tensor& tensor);

}  // namespace lockstep::virtual_devices
