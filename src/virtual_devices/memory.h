#pragma once

#include <ATen/core/Tensor.h>

#include "device/access_order.h"
#include "virtual_devices/counting_allocator.h"

namespace lockstep::virtual_devices {

// A device tensor's storage has a *twin*: a CPU storage over the same bytes, by which kernels
// compute. The device storage's own address is a hidden one, which cannot be read. While a storage
// is being computed by a stream, its twin has no memory yet.

/// What a device storage owns.
struct Block {
  c10::Storage twin;
  MemoryCharge counted;            ///< its bytes, for as long as the host has the storage
  device::AccessHistory accesses;  ///< by streams; guarded by the StreamSet
};

/// Whether it is such an address.
bool is_hidden(const void* address);

/// Makes LibTorch allocate storages of virtual devices here.
void register_allocator();

/// A tensor on the device `index` that takes over the storage of a CPU tensor.
at::Tensor adopt(const at::Tensor& on_cpu, c10::DeviceIndex index);

/// A storage of a device whose bytes, which `counted` has counted, are computed later.
c10::Storage promised_storage(size_t bytes, MemoryCharge counted, c10::DeviceIndex index);
/// Gives it the memory of a CPU storage of the same size. From any thread.
void keep_promise(const c10::Storage& twin, const c10::Storage& computed);

/// Throws BadInput if the tensor's memory is not the device's.
Block& block_of(const at::Tensor& on_device);

/// A CPU tensor over the bytes of a device tensor. Throws BadInput if their memory is not the
/// device's.
at::Tensor alias_of(const at::Tensor& on_device);

/// A device tensor with the sizes of `alias`, whose storage is the twin of that of `on_device`.
at::Tensor view_like(const at::Tensor& on_device, const at::Tensor& alias);

/// After a kernel has written to `alias`, an alias of `on_device`: takes over sizes and storage
/// that it may have changed.
void take_changes(const at::Tensor& on_device, const at::Tensor& alias);

/// Sizes, strides, type and the like of a tensor.
struct Shape {
  c10::SmallVector<int64_t, 5> sizes, strides;
  int64_t offset = 0;
  caffe2::TypeMeta type;
  bool wrapped_number = false;
  bool conjugate = false;  ///< its elements are the conjugates of those in memory
  bool negative = false;   ///< or their negatives

  static Shape of(const at::Tensor& tensor);
  bool operator==(const Shape&) const = default;
};

/// A tensor on a device with this storage.
at::Tensor on_device(const Shape& shape, c10::Storage storage);

}  // namespace lockstep::virtual_devices
