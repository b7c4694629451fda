#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace lockstep {

/// Counts the bytes of a device's memory that are in use, and refuses more than its limit. May be
/// used by several threads.
class MemoryAccount {
 public:
  /// `device` is its name for messages. A limit of 0 is none.
  MemoryAccount(std::string device, int64_t limit);

  /// Throws OutOfMemory if fewer than `bytes` are left; then nothing is counted.
  void take(int64_t bytes);
  void give_back(int64_t bytes) noexcept { in_use_.fetch_sub(bytes, std::memory_order_relaxed); }

  const std::string& device() const { return device_; }
  int64_t limit() const { return limit_; }
  int64_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
  /// The most that was in use since the last `forget_peak`.
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  void forget_peak() { peak_ = in_use(); }

 private:
  [[noreturn]] void refuse(int64_t bytes, int64_t in_use) const;

  const std::string device_;
  const int64_t limit_;
  std::atomic<int64_t> in_use_ = 0;
  std::atomic<int64_t> peak_ = 0;
};

}  // namespace lockstep
