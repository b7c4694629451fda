#include "virtual_devices/pinned_memory.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <unordered_set>

#include "base/thread_annotations.h"
#include "virtual_devices/libtorch.h"

namespace lockstep::virtual_devices {
namespace {

struct Pinned {
  Mutex mutex;
  std::unordered_set<const void*> addresses GUARDED_BY(mutex);
};

Pinned& pinned() {
  static Pinned& all = *new Pinned();  // tensors may outlive static objects
  return all;
}

void note_pinned(const void* data) {
  const MutexLock lock(pinned().mutex);
  pinned().addresses.insert(data);
}

void forget_pinned(const void* data) {
  const MutexLock lock(pinned().mutex);
  pinned().addresses.erase(data);
}

void free_pinned(void* data) {
  if (data == nullptr) return;
  forget_pinned(data);
  c10::GetCPUAllocator()->raw_deallocate(data);
}

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) LOCKSTEP_ALLOCATE_CONST override {
    void* const data = bytes == 0 ? nullptr : c10::GetCPUAllocator()->raw_allocate(bytes);
    if (data != nullptr) note_pinned(data);
    return {data, data, &free_pinned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  LOCKSTEP_COPY_DATA
};

}  // namespace

c10::Allocator* pinned_allocator() {
  static PinnedAllocator& allocator = *new PinnedAllocator();
  return &allocator;
}

PinnedHere::PinnedHere(const void* begin) : begin_(begin) {
  note_pinned(begin_);
}

PinnedHere::~PinnedHere() {
  forget_pinned(begin_);
}

bool is_pinned_address(const void* address) {
  if (address == nullptr) return false;
  const MutexLock lock(pinned().mutex);
  return pinned().addresses.contains(address);
}

at::Tensor pinned_copy(const at::Tensor& tensor) {
  at::Tensor copy = at::detail::empty_generic(tensor.sizes(), pinned_allocator(),
                                              c10::DispatchKeySet(c10::DispatchKey::CPU),
                                              tensor.scalar_type(), tensor.suggest_memory_format());
  return copy.copy_(tensor);
}

}  // namespace lockstep::virtual_devices
