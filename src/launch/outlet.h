#pragma once

#include <poll.h>

#include <string>
#include <string_view>

namespace lockstep::launch {

/// One of the launcher's standard streams, written without blocking: what cannot be written at once
/// is buffered. The stream stays in blocking mode, since other processes write to it too.
class Outlet {
 public:
  explicit Outlet(int stream) : stream_(stream) {}

  void put(std::string_view text);
  /// Writes what can be written without blocking.
  void drain();

  /// To poll for: `drain` can write once this is ready.
  pollfd waits_for() const { return {stream_, POLLOUT, 0}; }
  bool empty() const { return kept_.empty(); }
  /// Whether the buffer is full, so that no more should be put.
  bool full() const;

 private:
  const int stream_;
  std::string kept_;
  bool unread_ = false;  ///< its reader is gone: output is discarded, the job continues
};

}  // namespace lockstep::launch
