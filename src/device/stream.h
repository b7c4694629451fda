#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <latch>
#include <string>
#include <thread>

#include "base/thread_annotations.h"

namespace lockstep::device {

struct StreamOptions {
  std::string name;  ///< of its thread
  /// Called first in its thread, such as to choose the thread's cores. The constructor waits for
  /// it.
  std::function<void()> prepare = nullptr;
  /// Every task is delayed by up to this many seconds, at random, so that a program that does not
  /// wait where it must gives wrong results sooner. 0: no delay.
  double largest_delay = 0;
};

/// Runs tasks one after another in a thread of its own, while the threads that start them go on.
/// A *moment* is a number of tasks: it is reached when the stream's first tasks, so many, have
/// ended.
///
/// After a task has thrown, the tasks after it are dropped, until `synchronize` has thrown that
/// error; dropped tasks have ended, too.
class Stream {
 public:
  using Task = std::function<void()>;
  using Moment = uint64_t;

  explicit Stream(StreamOptions options);
  /// Ends once the tasks that were started have ended.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Returns the moment at which the task will have ended. Never waits.
  Moment start(Task task) EXCLUDES(mutex_);
  /// Waits while a thousand tasks have not ended. Call it before `start`, without a lock that tasks
  /// may need. A task, of any stream, does not wait: what has to end may be waiting for it.
  void await_room() const EXCLUDES(mutex_);

  /// The moment at which all tasks started so far will have ended.
  Moment now() const { return started_.load(std::memory_order_acquire); }
  bool has_reached(Moment moment) const { return ended_.load(std::memory_order_acquire) >= moment; }
  /// Tasks that are started from now on begin after `other` has reached the moment. If one of its
  /// tasks has thrown and nobody was told, they are dropped, with that error.
  void wait_for(const Stream& other, Moment moment);

  /// Waits until the moment is reached.
  void await(Moment moment) const EXCLUDES(mutex_);
  /// The same; rethrows what a task has thrown since the last call.
  void synchronize(Moment moment) EXCLUDES(mutex_);
  void synchronize() { synchronize(now()); }
  /// Throws Error if the stream's own thread, a task, calls this: it cannot wait for the stream.
  void refuse_own_thread() const;
  /// Tasks run again after this error, of which another stream that had waited for this one has
  /// told.
  void forget(const std::exception_ptr& error) EXCLUDES(mutex_);

 private:
  bool has_room() const;
  bool has_failed(Moment moment) const EXCLUDES(mutex_);
  void rethrow(Moment moment) const EXCLUDES(mutex_);
  void work() EXCLUDES(mutex_);
  Task next() EXCLUDES(mutex_);
  void attempt(const Task& task) EXCLUDES(mutex_);
  void delay();

  const StreamOptions options_;
  std::atomic<Moment> started_ = 0;
  std::atomic<Moment> ended_ = 0;
  uint64_t delays_ = 0;  ///< used only by the thread

  mutable Mutex mutex_;
  mutable Condition changed_;  ///< a task was started or has ended, or the stream ends
  std::deque<Task> queue_ GUARDED_BY(mutex_);
  bool ending_ GUARDED_BY(mutex_) = false;
  mutable int sleepers_ GUARDED_BY(mutex_) = 0;  ///< threads that wait for `changed_`
  std::exception_ptr error_ GUARDED_BY(mutex_);
  Moment failed_ GUARDED_BY(mutex_) = 0;  ///< where the task began that has thrown it

  std::latch prepared_{1};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::device
