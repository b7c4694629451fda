#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <variant>

#include "base/thread_annotations.h"
#include "elastic/message.h"
#include "net/frame_link.h"

namespace lockstep::elastic {

struct MemberOptions {
  std::string host;  ///< of the coordinator
  uint16_t port = 0;
  std::string key;
  Facts facts;  ///< what must be equal on all workers
  double silence_seconds = 10;
  double connect_seconds = 60;
  /// Started by another launcher than the coordinator's: ends when it receives no heartbeat from
  /// the coordinator, and leaves the job when it is asked to stop. The coordinator's own workers
  /// end with their launcher and stop when that is asked to.
  bool is_guest = false;
  int stop = -1;  ///< of a guest: becomes readable when it is asked to stop
};

/// A worker's connection to the coordinator of an elastic job. A thread receives the coordinator's
/// messages and sends heartbeats.
///
///     Member member(options);
///     while (true) {
///       const auto order = member.next(ready);  // or Dismiss: the worker must end
///       World world = ...;                      // with the others of that generation
///       member.on_leave([world](const std::string& why) mutable { world.abort(why); });
///       ...                                     // until the run ends or workers are lost
///     }
class Member {
 public:
  /// Throws BadInput (unknown host, wrong key), Timeout, and Interrupted when asked to stop.
  explicit Member(const MemberOptions& options);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  /// Reports that this worker is ready for the next generation and waits for the order to join one.
  /// Throws PeerLost when the connection to the coordinator is lost or its heartbeat times out.
  std::variant<Go, Dismiss> next(const Ready& ready) EXCLUDES(mutex_);

  /// Becomes readable when the current generation must be left at once.
  int interrupted() const { return interrupted_; }
  /// Set when all workers are asked to leave the generation after the current step.
  const std::atomic<bool>& regroup() const { return regroup_; }
  /// Calls `abort` once, from the thread, when the generation must be left at once; immediately if
  /// that is the case already. nullptr: call nothing any more. `abort` is called with the lock
  /// held, so it must not call this object.
  void on_leave(std::function<void(const std::string& why)> abort) EXCLUDES(mutex_);
  /// Whether the current generation must be left at once.
  bool must_leave() EXCLUDES(mutex_);

  /// Set this to the number of finished steps; it is sent to the coordinator.
  std::atomic<int64_t>& steps_done() { return step_; }
  /// The last message: the run has ended, or failed with an error that would occur again.
  void say(const Bye& bye) EXCLUDES(mutex_);
  void say(const Fail& fail) EXCLUDES(mutex_);

 private:
  void listen() EXCLUDES(mutex_);
  void hear(const std::string& text) REQUIRES(mutex_);
  void begin(const Go& go) REQUIRES(mutex_);
  void leave_at_once(const std::string& why) REQUIRES(mutex_);
  void say_last(const std::string& text) EXCLUDES(mutex_);

  const MemberOptions options_;
  const int interrupted_;
  const int wake_;  ///< wakes the thread when there is something to send
  std::atomic<bool> regroup_ = false;
  std::atomic<int64_t> step_ = -1;

  Mutex mutex_;
  Condition heard_;  ///< `order_` or `lost_` was set
  net::FrameLink link_ GUARDED_BY(mutex_);
  std::optional<std::variant<Go, Dismiss>> order_ GUARDED_BY(mutex_);
  int64_t generation_ GUARDED_BY(mutex_) = 0;
  std::optional<std::string> leave_ GUARDED_BY(mutex_);  ///< why, at once
  std::function<void(const std::string&)> abort_ GUARDED_BY(mutex_);
  std::optional<std::string> lost_ GUARDED_BY(mutex_);  ///< how the coordinator was lost
  bool ends_ GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::elastic
