#pragma once

#include <sched.h>

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/processor.h"
#include "base/thread_annotations.h"
#include "transport/shm/shared_segment.h"

namespace lockstep::transport {

/// Waits for what other ranks do in shared memory, and detects lost ranks.
///
/// A wait first spins, since other ranks with their own processors answer within a microsecond;
/// then it yields; then it sleeps until its bell rings, and checks ten times a second whether the
/// others are alive. The first rank that detects a loss writes it to shared memory, so that all
/// ranks name the same lost rank.
class SharedWait {
 public:
  SharedWait(std::shared_ptr<SharedSegment> segment, double silence_seconds);
  ~SharedWait();
  SharedWait(const SharedWait&) = delete;
  SharedWait& operator=(const SharedWait&) = delete;

  /// Returns when `ready()` is true. `late(rank)` tells whether the wait is for that rank. Throws
  /// PeerLost, Timeout.
  template <typename Ready, typename Late>
  void until(const Ready& ready, const Late& late, Deadline deadline) {
    if (!spin(ready)) sleep_until(ready, late, deadline);
  }

  /// Throws PeerLost if a rank is known to be lost or to have aborted.
  void check_peers() {
    check([](int) { return false; });
  }

  void watch_waits(const WaitWatch& watch) { watch_ = watch; }

  void tell_whereabouts(const Whereabouts& mine);
  std::optional<Whereabouts> whereabouts_of(int rank) const;

  /// Call it after a sequentially consistent store of something that `rank` may wait for.
  void wake(int rank) const {
    if (segment_->bell(rank).sleeping.load() != 0) ring(rank);
  }

  /// Records that `culprit` (a rank in the job) is lost, unless a loss is recorded already.
  void give_up(int culprit, const std::string& why) const noexcept;

 private:
  static constexpr int kSpins = 4000;
  static constexpr int kSpinsWhenCrowded = 20;
  static constexpr int kYields = 200;

  template <typename Ready>
  bool spin(const Ready& ready) const {
    const int spins = segment_->crowded() ? kSpinsWhenCrowded : kSpins;
    for (int i = 0; i < spins; ++i) {
      if (ready()) return true;
      spin_pause();
    }
    for (int i = 0; i < kYields; ++i) {
      if (ready()) return true;
      sched_yield();
    }
    return false;
  }

  struct Late {
    std::vector<int> ranks;  ///< in the job
    std::vector<std::string> names;
  };

  void sleep_until(const std::function<bool()>& ready, const std::function<bool(int)>& late,
                   Deadline deadline);
  void check(const std::function<bool(int)>& late);
  Late late_ranks(const std::function<bool(int)>& late) const;
  [[noreturn]] void time_out(const std::function<bool(int)>& late) const;
  void check_last_words() const;
  void check_processes(const std::function<bool(int)>& late);
  void check_silence();
  [[noreturn]] void lose(int rank, const std::string& how) const;
  void ring(int rank) const;
  void beat() EXCLUDES(mutex_);

  const std::shared_ptr<SharedSegment> segment_;
  const double silence_seconds_;
  std::vector<int> processes_;  ///< a pidfd per rank; -1: this process

  // Of the one thread that waits.
  struct Heard {
    uint64_t beats = 0;
    double silent = 0;
  };
  std::vector<Heard> heard_;
  Deadline::Clock::time_point last_check_;
  WaitWatch watch_;

  Mutex mutex_;
  Condition stop_;  ///< `stopping_` was set
  bool stopping_ GUARDED_BY(mutex_) = false;

  std::thread heart_;  // last: it uses the above
};

}  // namespace lockstep::transport
