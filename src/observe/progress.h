#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "run/events.h"

namespace lockstep::observe {

using run::Json;

/// Prints a run's events: on a terminal one line that is redrawn, otherwise a line every few
/// seconds.
///
///     Progress progress(stderr, metrics);
///     log.listen([&](const Json& event) { progress.show(event); });
class Progress {
 public:
  /// `metrics` tells how to print the metrics besides the loss: {"accuracy": "percent"}.
  Progress(std::FILE* out, Json metrics);

  void show(const Json& event);

 private:
  enum class Style { live, plain };

  void show_epoch(const Json& event);
  void show_step(const Json& event);
  void redraw(const std::string& line);
  void print(const std::string& line);
  void put(const std::string& text);

  std::FILE* out_;
  Json metrics_;
  Style style_;
  Stopwatch since_shown_;
  bool anything_shown_ = false;
  bool line_open_ = false;
};

/// "epoch 2/12  step 512/5,625  loss 0.2130  accuracy 93.1 %  lr 0.05  5,120 samples/s  0:42 left",
/// without the less important fields if it would be longer than `width`.
std::string describe_step(const Json& event, const Json& metrics, size_t width);

/// ("test accuracy", "91.05 %") for each of `metrics` that the event contains; "test" is the prefix
/// of the event's names. A percentage has `digits` digits after the point.
std::vector<std::pair<std::string, std::string>> describe_figures(const Json& event,
                                                                  const Json& metrics,
                                                                  const std::string& prefix,
                                                                  int digits);

}  // namespace lockstep::observe
