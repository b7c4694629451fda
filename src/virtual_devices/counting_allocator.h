#pragma once

#include <algorithm>
#include <utility>

#include "device/memory_account.h"

namespace lockstep::virtual_devices {

/// Makes LibTorch allocate CPU tensors by an allocator that knows which memory is a device's. Call
/// it once.
void install_counting_allocator();

/// Bytes of a device's memory that stay counted until this is destroyed.
class Holding {
 public:
  Holding() = default;
  /// Takes over bytes that are counted.
  Holding(MemoryAccount* account, int64_t bytes) : account_(account), bytes_(bytes) {}
  Holding(Holding&& other) noexcept
      : account_(std::exchange(other.account_, nullptr)), bytes_(other.bytes_) {}
  Holding& operator=(Holding&&) = delete;
  ~Holding() {
    if (account_ != nullptr) account_->give_back(bytes_);
  }

 private:
  MemoryAccount* account_ = nullptr;
  int64_t bytes_ = 0;
};

/// From now on, what was allocated there is counted by the holding, rather than until it is freed.
Holding take_over(void* data);

/// While it exists, what LibTorch allocates on this thread is counted as the device's memory.
class ComputingOn {
 public:
  explicit ComputingOn(MemoryAccount& account);
  ~ComputingOn();
  ComputingOn(const ComputingOn&) = delete;
  ComputingOn& operator=(const ComputingOn&) = delete;

  /// The most bytes that were in use at once of those allocated while it exists.
  int64_t most() const { return most_; }

  MemoryAccount& account() { return account_; }
  void note_allocated(int64_t bytes) { most_ = std::max(most_, in_use_ += bytes); }
  void note_freed(int64_t bytes) { in_use_ -= bytes; }

 private:
  MemoryAccount& account_;
  ComputingOn* const outer_;
  int64_t in_use_ = 0;
  int64_t most_ = 0;
};

}  // namespace lockstep::virtual_devices
