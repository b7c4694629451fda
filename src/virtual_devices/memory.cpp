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

c10::DataPtr hidden(c10::Storage twin, MemoryCharge counted, c10::DeviceIndex index) {
  const size_t bytes = twin.nbytes();
  auto block = std::make_unique<Block>(Block{std::move(twin), std::move(counted), {}});
  return {hidden_address(bytes), block.release(), &free_block, c10::Device(kType, index)};
}

c10::DataPtr hidden(const c10::Storage& twin, c10::DeviceIndex index) {
  return hidden(twin, take_over(twin.data_ptr()), index);
}

c10::Storage cpu_storage(size_t bytes, c10::DataPtr data) {
  return {c10::Storage::use_byte_size_t(), bytes, std::move(data), c10::GetCPUAllocator(),
          /*resizable=*/true};
}

class DeviceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) LOCKSTEP_ALLOCATE_CONST override {
    const c10::DeviceIndex index = current_device();
    const ComputingOn device(&Devices::get().account(index));
    return hidden(cpu_storage(bytes, c10::GetCPUAllocator()->allocate(bytes)), index);
  }
  LOCKSTEP_COPY_DATA
};

DeviceAllocator& device_allocator() {
  static DeviceAllocator& allocator = *new DeviceAllocator();  // as the counting allocator
  return allocator;
}

c10::Storage device_storage(size_t bytes, c10::DataPtr data) {
  return {c10::Storage::use_byte_size_t(), bytes, std::move(data), &device_allocator(),
          /*resizable=*/true};
}

c10::Storage adopted(const c10::Storage& twin, c10::DeviceIndex index) {
  return device_storage(twin.nbytes(), hidden(twin, index));
}

at::Tensor strided(const Shape& shape, c10::Storage storage, c10::DispatchKeySet keys) {
  at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, shape.type);
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  impl.set_sizes_and_strides(shape.sizes, shape.strides);
  impl.set_storage_offset(shape.offset);
  if (shape.wrapped_number) impl.set_wrapped_number(true);
  if (shape.conjugate) impl._set_conj(true);
  if (shape.negative) impl._set_neg(true);
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
  return on_device(Shape::of(on_cpu), adopted(on_cpu.storage(), index));
}

c10::Storage promised_storage(size_t bytes, MemoryCharge counted, c10::DeviceIndex index) {
  return device_storage(bytes, hidden(cpu_storage(bytes, {nullptr, c10::Device(c10::kCPU)}),
                                      std::move(counted), index));
}

void keep_promise(const c10::Storage& twin, const c10::Storage& computed) {
  c10::DataPtr none(nullptr, c10::Device(c10::kCPU));
  twin.unsafeGetStorageImpl()->set_data_ptr(
      computed.unsafeGetStorageImpl()->set_data_ptr(std::move(none)));
}

Block& block_of(const at::Tensor& on_device) {
  const c10::DataPtr& data = on_device.storage().data_ptr();
  if (data.get_deleter() != &free_block)
    throw BadInput(
        "a tensor on {} has memory that is not the device's; make it on the host, then call "
        ".to(device)",
        name_of(on_device.device()));
  return *static_cast<Block*>(data.get_context());
}

at::Tensor alias_of(const at::Tensor& on_device) {
  return strided(Shape::of(on_device), block_of(on_device).twin,
                 c10::DispatchKeySet(c10::DispatchKey::CPU));
}

at::Tensor view_like(const at::Tensor& tensor, const at::Tensor& alias) {
  return on_device(Shape::of(alias), tensor.storage());
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
    storage.set_data_ptr(hidden(twin, on_device.device().index()));
  }
  if (impl.sizes() != alias.sizes() || impl.strides() != alias.strides())
    impl.set_sizes_and_strides(alias.sizes(), alias.strides());
  if (impl.storage_offset() != alias.storage_offset())
    impl.set_storage_offset(alias.storage_offset());
}

Shape Shape::of(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  Shape shape{.offset = tensor.storage_offset(),
              .type = tensor.dtype(),
              .wrapped_number = impl.is_wrapped_number(),
              .conjugate = tensor.is_conj(),
              .negative = tensor.is_neg()};
  shape.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  shape.strides.assign(tensor.strides().begin(), tensor.strides().end());
  return shape;
}

at::Tensor on_device(const Shape& shape, c10::Storage storage) {
  return strided(shape, std::move(storage), c10::DispatchKeySet({kKey, kAutocastKey}));
}

}  // namespace lockstep::virtual_devices
