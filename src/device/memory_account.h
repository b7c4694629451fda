#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/thread_annotations.h"
#include "lockstep/device_memory.h"

namespace lockstep {

/// While it exists, what this thread allocates is counted under this use. Scopes may be nested.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryUse use);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  const std::optional<MemoryUse> outer_;
};

/// "parameters 1.0 MiB, activations 3.5 MiB": those that are not 0.
std::string describe(const MemoryByUse& memory);

/// Counts the bytes of a device's memory that are in use, in total and by use, and refuses more
/// than its limit. May be used by several threads.
class MemoryAccount {
 public:
  /// `device` is its name for messages. A limit of 0 is none.
  MemoryAccount(std::string device, int64_t limit);

  /// Counts `bytes` under the use of this thread's MemoryScope or, where it has none, under that of
  /// other threads. Returns that use. Throws OutOfMemory if fewer are left; then nothing is
  /// counted.
  MemoryUse take(int64_t bytes) EXCLUDES(mutex_);
  void take(int64_t bytes, MemoryUse use) EXCLUDES(mutex_);
  /// `use` is the one that they were counted under.
  void give_back(int64_t bytes, MemoryUse use) noexcept EXCLUDES(mutex_);
  /// Counts bytes that are in use under this thread's use from now on. Returns that use.
  MemoryUse recount(int64_t bytes, MemoryUse before) noexcept EXCLUDES(mutex_);

  /// From now on; what is in use stays.
  void set_limit(int64_t limit) EXCLUDES(mutex_);
  /// Threads without a MemoryScope, such as those of LibTorch's autograd, allocate under this use.
  /// At first it is `other`.
  void set_use_of_other_threads(MemoryUse use) EXCLUDES(mutex_);

  const std::string& device() const { return device_; }
  /// Peaks are those since the last `forget_peak`.
  DeviceMemory figures() const EXCLUDES(mutex_);
  void forget_peak() EXCLUDES(mutex_);

 private:
  MemoryUse use_of_this_thread() const REQUIRES(mutex_);
  void add(int64_t bytes, MemoryUse use) REQUIRES(mutex_);
  [[noreturn]] void refuse(int64_t bytes) const REQUIRES(mutex_);

  const std::string device_;

  mutable Mutex mutex_;
  DeviceMemory figures_ GUARDED_BY(mutex_);
  MemoryUse use_of_other_threads_ GUARDED_BY(mutex_) = MemoryUse::other;
};

/// Counts memory that is not LibTorch's as a device's, as long as the charge exists: gradients in
/// memory of the transport, an optimizer's state.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  /// Nothing is counted for a device without an account. Throws OutOfMemory.
  MemoryCharge(MemoryAccount* account, int64_t bytes, MemoryUse use);
  /// For bytes that are counted already.
  static MemoryCharge of_counted(MemoryAccount& account, int64_t bytes, MemoryUse use);
  ~MemoryCharge() { drop(); }
  MemoryCharge(MemoryCharge&& other) noexcept;
  MemoryCharge& operator=(MemoryCharge&& other) noexcept;

 private:
  void drop() noexcept;

  MemoryAccount* account_ = nullptr;
  int64_t bytes_ = 0;
  MemoryUse use_ = MemoryUse::other;
};

/// The account of this process's CPU; nullptr if its memory is not counted.
MemoryAccount* cpu_account();
/// Makes that account. Only the allocator of LibTorch's CPU memory calls this, once.
MemoryAccount& make_cpu_account();

}  // namespace lockstep
