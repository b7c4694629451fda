#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include "base/thread_annotations.h"
#include "transport/device.h"

namespace lockstep::collective {

class SerialQueue;

/// An action that was started and will end.
class Pending {
 public:
  Pending() = default;

  /// Returns when the action has ended; rethrows what it threw. The calling thread's stream waits
  /// for what the action has handed back.
  void wait() const;
  bool done() const;
  /// How long the action ran. Call it only once the action has ended.
  double seconds() const;

 private:
  friend class SerialQueue;
  struct State {
    Mutex mutex;
    bool done GUARDED_BY(mutex) = false;
    std::exception_ptr error GUARDED_BY(mutex);
    double seconds GUARDED_BY(mutex) = 0;
  };
  std::shared_ptr<State> state_;
  SerialQueue* queue_ = nullptr;  ///< which lives until the action has ended
  std::shared_ptr<transport::Handover> handover_;
};

/// Who runs actions that are started. A thread of the queue begins at once; but where it has no
/// core of its own, it takes that of the thread which started the action, and switching costs more
/// than the action.
enum class Runner {
  own_thread,
  waiter,  ///< whoever waits for it, or for a later one
};

/// Runs actions one at a time, in the order in which they were given. `run` uses the caller's
/// thread, and so does `wait` unless the action has begun, so that an action that does not have to
/// wait costs no thread switch.
class SerialQueue {
 public:
  SerialQueue() = default;
  /// Waits for the action that is running; those that have not begun end with an Error.
  ~SerialQueue();
  SerialQueue(const SerialQueue&) = delete;
  SerialQueue& operator=(const SerialQueue&) = delete;

  /// Returns at once. `handover`, if any, is of the device's buffers that the action works on.
  Pending start(std::function<void()> action,
                std::shared_ptr<transport::Handover> handover = nullptr,
                Runner runner = Runner::own_thread) EXCLUDES(mutex_);

  /// Returns when the action has ended; throws what it throws.
  template <typename Action>
  void run(const Action& action) EXCLUDES(mutex_) {
    if (!enter_if_idle()) return start(action, nullptr, Runner::waiter).wait();
    const Occupied occupied(*this);
    action();
  }

 private:
  friend class Pending;
  struct Waiting {
    std::function<void()> action;
    std::shared_ptr<Pending::State> state;
    Runner runner;
  };
  struct Occupied {
    explicit Occupied(SerialQueue& entered) : queue(entered) {}
    ~Occupied() { queue.leave(); }
    SerialQueue& queue;
  };

  bool enter_if_idle() EXCLUDES(mutex_);
  void leave() EXCLUDES(mutex_);
  void work() EXCLUDES(mutex_);
  /// Runs actions in this thread until `state` has ended.
  void run_until(Pending::State& state) EXCLUDES(mutex_);
  void run_first() REQUIRES(mutex_);
  static void finish(const Waiting& waiting, std::exception_ptr error, double seconds = 0);

  Mutex mutex_;
  Condition changed_;
  std::deque<Waiting> waiting_ GUARDED_BY(mutex_);
  int for_thread_ GUARDED_BY(mutex_) = 0;  ///< of those waiting, how many the thread is to run
  bool running_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  int waiters_ GUARDED_BY(mutex_) = 0;     ///< threads in run_until
  std::thread worker_ GUARDED_BY(mutex_);  // started by the first `start`
};

}  // namespace lockstep::collective
