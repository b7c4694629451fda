#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace lockstep::collective {

/// Something that was started and will end.
class Pending {
 public:
  Pending() = default;

  /// Returns when it has ended; throws what it threw.
  void wait() const;
  bool done() const;
  /// From its beginning to its end, which must have come.
  double seconds() const;

 private:
  friend class Lane;
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    // Guarded by mutex.
    bool done = false;
    std::exception_ptr error;
    double seconds = 0;
  };
  std::shared_ptr<State> state_;
};

/// Runs tasks one at a time, in the order given. `run` does it in the caller's thread when nothing
/// is under way, so that a task that nobody waits behind costs no switch of threads.
class Lane {
 public:
  Lane() = default;
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Pending start(std::function<void()> task);

  template <typename Task>
  void run(const Task& task) {
    if (!enter_if_idle()) return start(task).wait();
    const Leave leave(*this);
    task();
  }

  /// Whether a task is running or waiting.
  bool busy();

 private:
  struct Job {
    std::function<void()> task;
    std::shared_ptr<Pending::State> state;
  };
  struct Leave {
    explicit Leave(Lane& entered) : lane(entered) {}
    ~Leave() { lane.leave(); }
    Lane& lane;
  };

  bool enter_if_idle();
  void leave();
  void work();
  static void finish(const Job& job, std::exception_ptr error, double seconds = 0);

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<Job> jobs_;
  bool occupied_ = false;
  bool stopping_ = false;
  std::thread worker_;
};

}  // namespace lockstep::collective
