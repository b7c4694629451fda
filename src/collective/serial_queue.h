#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include "base/thread_annotations.h"
#include "transport/device.h"

namespace lockstep::collective {

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
    Condition changed;
    bool done GUARDED_BY(mutex) = false;
    std::exception_ptr error GUARDED_BY(mutex);
    double seconds GUARDED_BY(mutex) = 0;
  };
  std::shared_ptr<State> state_;
  std::shared_ptr<transport::Handover> handover_;
};

/// Runs actions one at a time, in the order in which they were given. `run` uses the caller's
/// thread when the queue is idle, so that an action that does not have to wait costs no thread
/// switch.
class SerialQueue {
 public:
  SerialQueue() = default;
  /// Waits for the action that is running; those that have not begun end with an Error.
  ~SerialQueue();
  SerialQueue(const SerialQueue&) = delete;
  SerialQueue& operator=(const SerialQueue&) = delete;

  /// Returns at once. `handover`, if any, is of the device's buffers that the action works on.
  Pending start(std::function<void()> action,
                std::shared_ptr<transport::Handover> handover = nullptr) EXCLUDES(mutex_);

  /// Returns when the action has ended; throws what it throws.
  template <typename Action>
  void run(const Action& action) EXCLUDES(mutex_) {
    if (!enter_if_idle()) return start(action).wait();
    const Occupied occupied(*this);
    action();
  }

 private:
  struct Waiting {
    std::function<void()> action;
    std::shared_ptr<Pending::State> state;
  };
  struct Occupied {
    explicit Occupied(SerialQueue& entered) : queue(entered) {}
    ~Occupied() { queue.leave(); }
    SerialQueue& queue;
  };

  bool enter_if_idle() EXCLUDES(mutex_);
  void leave() EXCLUDES(mutex_);
  void work() EXCLUDES(mutex_);
  static void finish(const Waiting& waiting, std::exception_ptr error, double seconds = 0);

  Mutex mutex_;
  Condition changed_;
  std::deque<Waiting> waiting_ GUARDED_BY(mutex_);
  bool running_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread worker_ GUARDED_BY(mutex_);  // started by the first `start`
};

}  // namespace lockstep::collective
