#pragma once

#include "device/memory_account.h"

namespace lockstep::virtual_devices {

/// Makes LibTorch allocate CPU tensors by an allocator that knows which memory is a device's. Call
/// it once.
void install_counting_allocator();

/// While it exists, what LibTorch allocates on this thread is counted as the device's memory.
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
