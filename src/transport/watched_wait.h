#pragma once

#include <algorithm>

#include "base/clock.h"
#include "transport/transport.h"

namespace lockstep::transport {

/// One wait under a watch.
class WatchedWait {
 public:
  explicit WatchedWait(const WaitWatch& watch) : watch_(watch), next_(watch.after) {}

  /// Call it when something has arrived: another wait begins.
  void restart() {
    since_.restart();
    before_ = 0;
    next_ = watch_.after;
  }

  /// Looks at the wait if it is time to. `late_ranks()` are the ranks that it is for.
  template <typename LateRanks>
  void look(const LateRanks& late_ranks) {
    if (!watch_.look) return;
    const double seconds = since_.seconds();
    if (seconds < next_) return;
    watch_.look({before_, seconds, late_ranks()});
    before_ = seconds;
    next_ = seconds + kLookSeconds;
  }

  /// Seconds until the next look.
  double left() const {
    constexpr double kForever = 1e9;
    return watch_.look ? std::max(0.0, next_ - since_.seconds()) : kForever;
  }

 private:
  static constexpr double kLookSeconds = 0.1;

  const WaitWatch& watch_;
  Stopwatch since_;
  double before_ = 0;
  double next_;
};

}  // namespace lockstep::transport
