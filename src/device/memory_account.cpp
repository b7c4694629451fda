#include "device/memory_account.h"

#include <utility>

#include "base/units.h"
#include "lockstep/error.h"

namespace lockstep {

MemoryAccount::MemoryAccount(std::string device, int64_t limit)
    : device_(std::move(device)), limit_(limit) {}

void MemoryAccount::take(int64_t bytes) {
  const int64_t before = in_use_.fetch_add(bytes, std::memory_order_relaxed);
  if (limit_ > 0 && bytes > limit_ - before) {
    give_back(bytes);
    refuse(bytes, before);
  }
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (before + bytes > peak &&
         !peak_.compare_exchange_weak(peak, before + bytes, std::memory_order_relaxed)) {
  }
}

void MemoryAccount::refuse(int64_t bytes, int64_t in_use) const {
  throw OutOfMemory(
      device_, bytes, in_use, limit_,
      fmt::format("{} is out of memory: {} are in use of {}, and {} more were asked for (peak so "
                  "far: {})",
                  device_, format_bytes(in_use), format_bytes(limit_), format_bytes(bytes),
                  format_bytes(peak())));
}

}  // namespace lockstep
