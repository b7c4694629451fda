#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::virtual_devices {

// A device tensor's storage has a *twin*: a CPU storage over the same bytes, by which kernels
// compute. The device storage's own address is a hidden one, which cannot be read.

/// Whether it is such an address.
bool is_hidden(const void* address);

/// Makes LibTorch allocate storages of virtual devices here.
void register_allocator();

/// A tensor on the device `index` that takes over the storage of a CPU tensor.
at::Tensor adopt(const at::Tensor& on_cpu, c10::DeviceIndex index);

/// A CPU tensor over the bytes of a device tensor. Throws BadInput if their memory is not the
/// device's.
at::Tensor alias_of(const at::Tensor& on_device);

/// A device tensor with the sizes of `alias`, whose storage is the twin of that of `on_device`.
at::Tensor view_like(const at::Tensor& on_device, const at::Tensor& alias);

/// After a kernel has written to `alias`, an alias of `on_device`: takes over sizes and storage
/// that it may have changed.
void take_changes(const at::Tensor& on_device, const at::Tensor& alias);

}  // namespace lockstep::virtual_devices
