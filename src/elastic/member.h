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
  std::string host;  ///< where the coordinator is
  uint16_t port = 0;
  std::string key;
  Facts facts;  ///< what all workers must hold alike
  double silence_seconds = 10;
  double connect_seconds = 60;
  /// Of another launcher than the coordinator's: ends when it hears nothing from there, and leaves
  /// the job alone when it is asked to stop. The coordinator's own workers end with their launcher
  /// and stop when that is asked to.
  bool is_guest = false;
  int stop = -1;  ///< a guest's: readable once it is asked to stop
};

/// A worker's end of a job whose workers come and go. A thread hears what the coordinator says and
/// tells it that this worker is alive.
///
///     Member member(options);
///     while (true) {
///       const auto order = member.next(ready);  // or it is dismissed
///       World world = ...;                      // with the others of that generation
///       member.on_leave([world](const std::string& why) mutable { world.abort(why); });
///       ...                                     // until the run ends or others are lost
///     }
class Member {
 public:
  /// Throws BadInput (no such host, another key), Timeout, and Interrupted when asked to stop.
  explicit Member(const MemberOptions& options);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  /// Says that this worker is ready for another generation than the one it was in, and waits to be
  /// told which. Throws PeerLost when the coordinator is gone or silent.
  std::variant<Go, Dismiss> next(const Ready& ready) EXCLUDES(mutex_);

  /// Readable once the generation under way must be left at once.
  int interrupted() const { return interrupted_; }
  /// Set once all are asked to leave the generation after the step under way.
  const std::atomic<bool>& regroup() const { return regroup_; }
  /// Calls `abort` from the thread, once, when the generation must be left at once; at once if that
  /// is so already. Nothing: calls nobody any more. `abort` must not call this object: it is called
  /// with its lock held.
  void on_leave(std::function<void(const std::string& why)> abort) EXCLUDES(mutex_);
  /// Whether the generation under way must be left at once.
  bool must_leave() EXCLUDES(mutex_);

  /// To be set to how many steps are done; the coordinator is told of it.
  std::atomic<int64_t>& steps_done() { return step_; }
  /// The last words: the run has come to its end, or to an error that would happen again.
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
  const int wake_;  ///< the thread, when there is something to send
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
