#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

namespace lockstep::virtual_devices {

// Host memory that asynchronous copies may use while the host goes on. Here it is plain memory that
// was asked for as such, so that programs behave as they do with GPUs.

c10::Allocator* pinned_allocator();

/// Whether an allocation of pinned memory begins there.
bool is_pinned_address(const void* address);

inline bool is_in_pinned_memory(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && is_pinned_address(tensor.storage().data_ptr().get());
}

/// While it exists, the memory that begins there counts as pinned.
class PinnedHere {
 public:
  explicit PinnedHere(const void* begin);
  ~PinnedHere();
  PinnedHere(const PinnedHere&) = delete;
  PinnedHere& operator=(const PinnedHere&) = delete;

 private:
  const void* const begin_;
};

/// A copy of a host tensor in pinned memory.
at::Tensor pinned_copy(const at::Tensor& tensor);

}  // namespace lockstep::virtual_devices
