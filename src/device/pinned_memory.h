#pragma once

#include <cstdint>

namespace lockstep::device {

// Host memory that asynchronous copies may use while the host goes on. For devices without hardware
// it is plain memory that was asked for as such, so that programs behave as they do with GPUs.

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

/// Whether pinned memory begins there.
bool is_pinned(const void* begin);

}  // namespace lockstep::device
