#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/stream.h"

namespace lockstep::device {

/// A task's use of a piece of memory.
struct Access {
  size_t stream = 0;          ///< number of the stream that runs the task
  Stream::Moment moment = 0;  ///< at which the task has ended
  int64_t begin = 0;          ///< of the bytes that it uses
  int64_t end = 0;
  bool dense = true;  ///< whether it uses all bytes between them
  bool written = false;
  const std::string* by = nullptr;  ///< the task's name
};

/// The accesses to a piece of memory that later ones are compared with.
using AccessHistory = std::vector<Access>;

/// What is known to have ended: the moment that each stream has reached, by number.
using Clock = std::vector<Stream::Moment>;

/// Finds tasks of different streams that use the same memory, one of them writing, where neither
/// waits for the other: a race, whose result depends on which is faster. It is found from the waits
/// that the program asks for, by vector clocks, not from what happens to run when; so it is found
/// in every run.
class AccessOrder {
 public:
  /// Returns the stream's number.
  size_t add_stream();

  /// What has ended when the stream reaches the moment `now`, at which its tasks so far have ended.
  Clock at(size_t stream, Stream::Moment now) const;
  /// Later tasks of the stream begin after all this.
  void wait(size_t stream, const Clock& clock);
  /// All tasks that are started from now on begin after all this, since the host has waited for it.
  void host_waited(const Clock& clock);

  /// Adds an access, unless it races with one of the history, which is then returned.
  std::optional<Access> add(AccessHistory& history, const Access& access) const;

 private:
  bool ordered(const Access& earlier, size_t stream) const;

  std::vector<Clock> clocks_;  ///< by stream: what its next task begins after
  Clock host_;
};

}  // namespace lockstep::device
