#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace lockstep::transport {

/// Hands out ranges of an address space, first fit, each a multiple of a page. Knows offsets only;
/// thread-safe.
class Heap {
 public:
  explicit Heap(uint64_t bytes) : bytes_(bytes) { free_[0] = bytes; }

  /// The offset of a free range, or nothing where none is large enough.
  std::optional<uint64_t> take(uint64_t bytes);
  void give_back(uint64_t offset);

  uint64_t bytes() const { return bytes_; }

  static constexpr uint64_t kPage = 4096;

 private:
  const uint64_t bytes_;

  std::mutex mutex_;
  // Guarded by mutex_: size by offset. No two free ranges touch.
  std::map<uint64_t, uint64_t> free_;
  std::map<uint64_t, uint64_t> taken_;
};

}  // namespace lockstep::transport
