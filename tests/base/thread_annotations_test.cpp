#include "base/thread_annotations.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lockstep {
namespace {

class Counter {
 public:
  void add() EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      ++count_;
    }
    changed_.notify_all();
  }

  void wait_for(int count) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (count_ < count) changed_.wait(mutex_);
  }

  bool wait_for(int count, Deadline deadline) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (count_ < count)
      if (!changed_.wait(mutex_, deadline)) return false;
    return true;
  }

  bool is_locked() EXCLUDES(mutex_) {
    if (!mutex_.try_lock()) return true;
    mutex_.unlock();
    return false;
  }

  // Whether others could take the lock in between.
  bool is_free_while_unlocked() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    lock.unlock();
    const bool free = !is_locked();
    lock.lock();
    return free;
  }

 private:
  Mutex mutex_;
  Condition changed_;
  int count_ GUARDED_BY(mutex_) = 0;
};

TEST(Mutex, LetsOneThreadAtATimeCount) {
  constexpr int kThreads = 4;
  constexpr int kTimes = 1000;
  Counter counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < kTimes; ++k) counter.add();
    });
  counter.wait_for(kThreads * kTimes);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(counter.is_locked());
}

TEST(MutexLock, CanBeReleasedAndTakenAgain) {
  Counter counter;
  EXPECT_TRUE(counter.is_free_while_unlocked());
  EXPECT_FALSE(counter.is_locked());
}

TEST(Condition, GivesUpAtItsDeadline) {
  Counter counter;
  counter.add();
  EXPECT_TRUE(counter.wait_for(1, Deadline::in(60)));
  EXPECT_FALSE(counter.wait_for(2, Deadline::in(0.01)));
  EXPECT_FALSE(counter.is_locked());
}

}  // namespace
}  // namespace lockstep
