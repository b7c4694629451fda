#pragma once

#include <poll.h>

#include <string>
#include <string_view>

namespace lockstep::launch {

/// One of our own standard streams, as something that is never waited for: what does not go at once
/// is kept. The stream itself stays as it is, since others write to it too.
class Outlet {
 public:
  explicit Outlet(int stream) : stream_(stream) {}

  void put(std::string_view text);
  /// Writes what can be written without waiting.
  void drain();

  /// What to wait for before `drain` can do something.
  pollfd waits_for() const { return {stream_, POLLOUT, 0}; }
  bool empty() const { return kept_.empty(); }
  /// So much is kept that whoever writes should wait.
  bool full() const;

 private:
  const int stream_;
  std::string kept_;
  bool unread_ = false;  ///< nobody reads it any more, which is no reason to stop a job
};

}  // namespace lockstep::launch
