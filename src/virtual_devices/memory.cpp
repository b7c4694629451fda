#include "virtual_devices/memory.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>

#include <atomic>
#include <utility>

#include "lockstep/error.h"
#include "virtual_devices/counting_allocator.h"
#include "virtual_devices/devices.h"
#include "virtual_devices/libtorch.h"

namespace lockstep::virtual_devices {
namespace {

// What a device storage owns.
struct Block {
  c10::Storage twin;
};

void free_block(void* block) {
  delete static_cast<Block*>(block);
}

// No process can have memory at these addresses: on x86-64 they are not canonical, also with 57-bit
// addresses; on arm64 they are the kernel's. They are used again after 36 petabytes.
constexpr uint64_t kFirstHidden = 0x0180'0000'0000'0000, kHidden = uint64_t{1} << 55;

void* hidden_address(size_t bytes) {
  static std::atomic<uint64_t> next = 0;
  if (bytes == 0) return nullptr;
  const uint64_t used = (bytes / 64 + 2) * 64;  // aligned as LibTorch aligns
  return reinterpret_cast<void*>(kFirstHidden + next.fetch_add(used) % kHidden);
}

c10::DataPtr hidden(std::unique_ptr<Block> block, size_t bytes, c10::DeviceIndex index) {
  count_as_result(block->twin.data_ptr());
  return {hidden_address(bytes), block.release(), &free_block, c10::Device(kType, index)};
}

c10::Storage cpu_storage(size_t bytes) {
  return {c10::Storage::use_byte_size_t(), bytes, c10::GetCPUAllocator()->allocate(bytes),
          c10::GetCPUAllocator(), /*resizable=*/true};
}

class DeviceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) LOCKSTEP_ALLOCATE_CONST override {
    const c10::DeviceIndex index = current_device();
    const ComputingOn device(Devices::get().account(index));
    return hidden(std::make_unique<Block>(Block{cpu_storage(bytes)}), bytes, index);
  }
  LOCKSTEP_COPY_DATA
};

DeviceAllocator& device_allocator() {
  static DeviceAllocator allocator;
  return allocator;
}

c10::Storage adopted(const c10::Storage& twin, c10::DeviceIndex index) {
  return {c10::Storage::use_byte_size_t(), twin.nbytes(),
          hidden(std::make_unique<Block>(Block{twin}), twin.nbytes(), index), &device_allocator(),
          /*resizable=*/true};
}

Block& block_of(const at::Tensor& tensor) {
  const c10::DataPtr& data = tensor.storage().data_ptr();
  if (data.get_deleter() != &free_block)
    throw BadInput(
        "a tensor on {} has memory that is not the device's; make it on the host, then call "
        ".to(device)",
        name_of(tensor.device()));
  return *static_cast<Block*>(data.get_context());
}

at::Tensor strided_like(const at::Tensor& like, c10::Storage storage, c10::DispatchKey key) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), like.dtype());
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  impl.set_sizes_and_strides(like.sizes(), like.strides());
  impl.set_storage_offset(like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl.set_wrapped_number(true);
  return tensor;
}

}  // namespace

bool is_hidden(const void* address) {
  return reinterpret_cast<uint64_t>(address) - kFirstHidden < kHidden;
}

void register_allocator() {
  c10::SetAllocator(kType, &device_allocator());
}

at::Tensor adopt(const at::Tensor& on_cpu, c10::DeviceIndex index) {
  return strided_like(on_cpu, adopted(on_cpu.storage(), index), kKey);
}

at::Tensor alias_of(const at::Tensor& on_device) {
  return strided_like(on_device, block_of(on_device).twin, c10::DispatchKey::CPU);
}

at::Tensor view_like(const at::Tensor& on_device, const at::Tensor& alias) {
  return strided_like(alias, on_device.storage(), kKey);
}

void take_changes(const at::Tensor& on_device, const at::Tensor& alias) {
  c10::TensorImpl& impl = *on_device.unsafeGetTensorImpl();
  Block& block = block_of(on_device);
  const c10::Storage& twin = alias.storage();
  const bool replaced = twin.unsafeGetStorageImpl() != block.twin.unsafeGetStorageImpl();
  if (replaced) {
    impl.set_storage_keep_dtype(adopted(twin, on_device.device().index()));
  } else if (twin.nbytes() != on_device.storage().nbytes()) {
    c10::StorageImpl& storage = *on_device.storage().unsafeGetStorageImpl();
    storage.set_nbytes(twin.nbytes());
    storage.set_data_ptr(
        hidden(std::make_unique<Block>(Block{twin}), twin.nbytes(), on_device.device().index()));
  }
  if (impl.sizes() != alias.sizes() || impl.strides() != alias.strides())
    impl.set_sizes_and_strides(alias.sizes(), alias.strides());
  if (impl.storage_offset() != alias.storage_offset())
    impl.set_storage_offset(alias.storage_offset());
}

}  // namespace lockstep::virtual_devices
