#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/thread_annotations.h"

namespace lockstep::transport {

/// Hands out ranges of an address space, first fit, each a multiple of a page. Knows offsets only;
/// thread-safe.
class Heap {
 public:
  explicit Heap(uint64_t bytes) : bytes_(bytes) { free_[0] = bytes; }

  /// The offset of a free range, or nothing where none is large enough.
  std::optional<uint64_t> take(uint64_t bytes) EXCLUDES(mutex_);
  void give_back(uint64_t offset) EXCLUDES(mutex_);

  uint64_t bytes() const { return bytes_; }

  static constexpr uint64_t kPage = 4096;

 private:
  const uint64_t bytes_;

  Mutex mutex_;
  // Size by offset. No two free ranges touch.
  std::map<uint64_t, uint64_t> free_ GUARDED_BY(mutex_);
  std::map<uint64_t, uint64_t> taken_ GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport
