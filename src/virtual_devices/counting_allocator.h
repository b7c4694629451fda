#pragma once

#include <c10/core/Allocator.h>

#include "device/memory_account.h"

namespace lockstep::virtual_devices {

/// Makes LibTorch allocate CPU tensors by an allocator that knows which memory is a device's, if it
/// does not yet.
void install_counting_allocator();

/// A kernel's result: its memory was counted as workspace while the kernel computed, and is counted
/// under this thread's use from now on.
void count_as_result(const c10::DataPtr& memory);

/// While it exists, what LibTorch allocates on this thread is counted as the device's memory, as
/// workspace.
class ComputingOn {
 public:
  explicit ComputingOn(MemoryAccount& account);
  ~ComputingOn();
  ComputingOn(const ComputingOn&) = delete;
  ComputingOn& operator=(const ComputingOn&) = delete;

 private:
  MemoryAccount* const outer_;
};

}  // namespace lockstep::virtual_devices
