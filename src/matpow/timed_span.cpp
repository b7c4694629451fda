#include "matpow/timed_span.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace lockstep::matpow {
namespace {

using Interval = std::pair<double, double>;

// The length of their union.
double covered(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  double seconds = 0, until = 0;
  for (const auto& [begin, end] : intervals) {
    seconds += std::max(0.0, end - std::max(begin, until));
    until = std::max(until, end);
  }
  return seconds;
}

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void add_up(const std::vector<TimedSpan>& spans, Timing& timing) {
  std::vector<Interval> by_phase[kPhases], copies;
  for (const TimedSpan& span : spans) {
    by_phase[static_cast<int>(span.phase)].emplace_back(span.begin, span.end);
    if (span.phase == Phase::copy_in || span.phase == Phase::copy_out)
      copies.emplace_back(span.begin, span.end);
  }
  for (int i = 0; i < kPhases; ++i) timing.phase_seconds[i] = covered(by_phase[i]);
  timing.copy_seconds = covered(copies);
}

}  // namespace lockstep::matpow
