#pragma once

#include <condition_variable>
#include <mutex>

#include "base/deadline.h"

// Which lock guards what, in words that Clang checks (-Wthread-safety); other compilers ignore
// them. libstdc++'s std::mutex carries no annotations, so locks that are to be checked are Mutex,
// MutexLock and Condition below.
//
//     Mutex mutex_;
//     Condition changed_;
//     std::deque<Item> items_ GUARDED_BY(mutex_);
//
//     void drop_oldest() REQUIRES(mutex_);
//
//     const MutexLock lock(mutex_);
//     while (items_.empty()) changed_.wait(mutex_);
//
// Waits are loops like that one, without a lambda for the condition: Clang checks a lambda as a
// function of its own, which does not hold the lock.
#if defined(__clang__)
#define LOCKSTEP_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define LOCKSTEP_THREAD_ANNOTATION(x)
#endif

/// On a type: it is a lock, which messages call `name`.
#define CAPABILITY(name) LOCKSTEP_THREAD_ANNOTATION(capability(name))
/// On a type: it holds a lock from its construction to its destruction.
#define SCOPED_CAPABILITY LOCKSTEP_THREAD_ANNOTATION(scoped_lockable)
/// On a member: it is read and written only by a thread that holds the lock.
#define GUARDED_BY(lock) LOCKSTEP_THREAD_ANNOTATION(guarded_by(lock))
/// On a pointer: what it points to is.
#define PT_GUARDED_BY(lock) LOCKSTEP_THREAD_ANNOTATION(pt_guarded_by(lock))
/// On a function: its caller holds the lock.
#define REQUIRES(...) LOCKSTEP_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
/// On a function: its caller does not hold the lock, because the function itself takes it.
#define EXCLUDES(...) LOCKSTEP_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
/// On a function: it takes the lock, and its caller holds it afterwards.
#define ACQUIRE(...) LOCKSTEP_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
/// On a function: it releases the lock that its caller held.
#define RELEASE(...) LOCKSTEP_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
/// On a function: it has taken the lock if it returns the first argument.
#define TRY_ACQUIRE(...) LOCKSTEP_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
/// On a function that returns a reference to a lock: which one.
#define RETURN_CAPABILITY(lock) LOCKSTEP_THREAD_ANNOTATION(lock_returned(lock))
/// On a function: it is not checked. A comment beside it says why it is right.
#define NO_THREAD_SAFETY_ANALYSIS LOCKSTEP_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace lockstep {

class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

/// Holds a mutex until the end of its scope, except between `unlock` and `lock`.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() RELEASE() {
    held_ = false;
    mutex_.unlock();
  }
  void lock() ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

/// A condition variable. Waits release the mutex, which the caller holds, and hold it again when
/// they return, which may be without a reason: test the condition in a loop.
class Condition {
 public:
  void wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock held(mutex.mutex_, std::adopt_lock);
    changed_.wait(held);
    held.release();
  }

  /// Returns false once the deadline has passed.
  bool wait(Mutex& mutex, Deadline deadline) REQUIRES(mutex) {
    std::unique_lock held(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = changed_.wait_until(held, deadline.at());
    held.release();
    return status == std::cv_status::no_timeout;
  }

  void notify_one() noexcept { changed_.notify_one(); }
  void notify_all() noexcept { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace lockstep
