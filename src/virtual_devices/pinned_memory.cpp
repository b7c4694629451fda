#include "virtual_devices/pinned_memory.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <memory>
#include <utility>

#include "virtual_devices/libtorch.h"

namespace lockstep::virtual_devices {
namespace {

// An allocation: freed in the order in which it was made.
struct PinnedBlock {
  explicit PinnedBlock(c10::DataPtr data) : memory(std::move(data)), here(memory.get()) {}
  c10::DataPtr memory;
  device::PinnedHere here;
};

void free_pinned(void* block) {
  delete static_cast<PinnedBlock*>(block);
}

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) LOCKSTEP_ALLOCATE_CONST override {
    c10::DataPtr memory = c10::GetCPUAllocator()->allocate(bytes);
    void* const data = memory.get();
    return {data, new PinnedBlock(std::move(memory)), &free_pinned, c10::Device(c10::kCPU)};
  }
  LOCKSTEP_COPY_DATA
};

}  // namespace

c10::Allocator* pinned_allocator() {
  static PinnedAllocator& allocator = *new PinnedAllocator();
  return &allocator;
}

at::Tensor pinned_copy(const at::Tensor& tensor) {
  at::Tensor copy = at::detail::empty_generic(tensor.sizes(), pinned_allocator(),
                                              c10::DispatchKeySet(c10::DispatchKey::CPU),
                                              tensor.scalar_type(), tensor.suggest_memory_format());
  return copy.copy_(tensor);
}

}  // namespace lockstep::virtual_devices
