#pragma once

#include <algorithm>
#include <chrono>

namespace lockstep {

/// The time at which a wait ends with a timeout.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline in(double seconds) {
    return Deadline(Clock::now() +
                    std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double>(std::clamp(seconds, 0.0, kForever))));
  }

  static Deadline never() { return in(kForever); }

  bool passed() const { return Clock::now() >= at_; }

  /// Seconds left, at least 0.
  double left() const {
    return std::max(0.0, std::chrono::duration<double>(at_ - Clock::now()).count());
  }

  /// The earlier of this one and `seconds` from now.
  Deadline or_in(double seconds) const { return Deadline(std::min(at_, in(seconds).at_)); }

  Clock::time_point at() const { return at_; }

 private:
  static constexpr double kForever = 1e9;

  explicit Deadline(Clock::time_point at) : at_(at) {}

  Clock::time_point at_;
};

}  // namespace lockstep
