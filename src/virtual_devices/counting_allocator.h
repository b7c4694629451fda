#pragma once

#include <c10/core/Allocator.h>

#include <algorithm>
#include <cstdint>

#include "device/memory_account.h"

namespace lockstep::virtual_devices {

/// Makes LibTorch allocate CPU tensors by an allocator that knows which memory is a device's, if it
/// does not yet.
void install_counting_allocator();

/// A kernel's result: its memory was counted as workspace while the kernel computed. From now on it
/// is counted under this thread's use, for as long as the charge exists, rather than until it is
/// freed.
MemoryCharge take_over(const c10::DataPtr& memory);

/// While it exists, what LibTorch allocates on this thread is counted as the device's memory, as
/// workspace.
class ComputingOn {
 public:
  /// Without an account nothing is counted: what an asynchronous device computes was counted when
  /// the host called it.
  explicit ComputingOn(MemoryAccount* account);
  ~ComputingOn();
  ComputingOn(const ComputingOn&) = delete;
  ComputingOn& operator=(const ComputingOn&) = delete;

  /// The most bytes that were in use at once of those allocated while it exists.
  int64_t most() const { return most_; }

  MemoryAccount* account() { return account_; }
  /// No two are equal.
  uint64_t number() const { return number_; }
  void note_allocated(int64_t bytes) { most_ = std::max(most_, in_use_ += bytes); }
  /// Of memory that was allocated while it exists.
  void note_freed(int64_t bytes) { in_use_ -= bytes; }

 private:
  MemoryAccount* const account_;
  const uint64_t number_;
  ComputingOn* const outer_;
  int64_t in_use_ = 0;
  int64_t most_ = 0;
};

}  // namespace lockstep::virtual_devices
