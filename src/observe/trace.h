#pragma once

#include <string>
#include <vector>

namespace lockstep::observe {

/// A piece of work on one track of a timeline.
struct TraceSpan {
  std::string process;  ///< a group of tracks, such as a device
  std::string track;    ///< what runs one thing after another, such as a stream
  std::string name;
  double begin = 0;  ///< seconds, since any moment that all spans have in common
  double end = 0;
};

/// A timeline in the format of Chrome's trace events, which ui.perfetto.dev and chrome://tracing
/// show: a track for each process and track, in the order in which they first appear. It begins
/// with the first span.
std::string chrome_trace(const std::vector<TraceSpan>& spans);

}  // namespace lockstep::observe
