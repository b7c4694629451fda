#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "base/clock.h"

namespace lockstep::observe {

/// The timed pieces of a step. `data` and `exchange` count only the time that compute had to wait.
enum class Span : size_t { data, forward, backward, exchange, optimizer };

inline constexpr std::array<std::string_view, 5> kSpanNames = {"data", "forward", "backward",
                                                               "exchange", "optimizer"};

/// Seconds by span, added up.
struct SpanTimes {
  std::array<double, kSpanNames.size()> seconds{};

  double& operator[](Span span) { return seconds[static_cast<size_t>(span)]; }
  double operator[](Span span) const { return seconds[static_cast<size_t>(span)]; }
};

/// Adds the time until it goes out of scope to one span.
///
///     ScopedSpan span(times, Span::forward);
class ScopedSpan {
 public:
  ScopedSpan(SpanTimes& times, Span span) : times_(times), span_(span) {}
  ~ScopedSpan() { times_[span_] += stopwatch_.seconds(); }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

 private:
  SpanTimes& times_;
  Span span_;
  Stopwatch stopwatch_;
};

}  // namespace lockstep::observe
