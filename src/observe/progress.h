#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "run/events.h"

namespace lockstep::observe {

using run::Json;

/// Shows a run's events to a person: one line that redraws itself on a terminal, plain lines (one
/// every few seconds) when piped.
///
///     Progress progress(stderr, metrics);
///     log.listen([&](const Json& event) { progress.show(event); });
class Progress {
 public:
  /// `metrics` are the figures besides the loss and how to show them: {"accuracy": "percent"}.
  Progress(std::FILE* out, Json metrics);

  void show(const Json& event);

 private:
  enum class Style { live, plain };

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
/// without the less telling fields where it would be longer than `width`.
std::string describe_step(const Json& event, const Json& metrics, size_t width);

/// ("test accuracy", "91.05 %"), of each figure that an event has of those in `metrics`; "test" is
/// the prefix of the event's names. A percentage has `digits` digits after the point.
std::vector<std::pair<std::string, std::string>> describe_figures(const Json& event,
                                                                  const Json& metrics,
                                                                  const std::string& prefix,
                                                                  int digits);

}  // namespace lockstep::observe
