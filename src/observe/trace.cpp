#include "observe/trace.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace lockstep::observe {
namespace {

using TraceJson = nlohmann::ordered_json;

// The number of a name among those seen so far, from 1 on.
size_t number_of(std::vector<std::string>& seen, const std::string& name) {
  const auto found = std::find(seen.begin(), seen.end(), name);
  if (found != seen.end()) return static_cast<size_t>(found - seen.begin()) + 1;
  seen.push_back(name);
  return seen.size();
}

TraceJson naming(const char* what, size_t process, size_t track, const std::string& name) {
  return {
      {"ph", "M"}, {"name", what}, {"pid", process}, {"tid", track}, {"args", {{"name", name}}}};
}

}  // namespace

std::string chrome_trace(const std::vector<TraceSpan>& spans) {
  constexpr double kMicroseconds = 1e6;
  double first = std::numeric_limits<double>::max();
  for (const TraceSpan& span : spans) first = std::min(first, span.begin);
  std::vector<std::string> processes;
  std::vector<std::vector<std::string>> tracks;
  TraceJson events = TraceJson::array();
  for (const TraceSpan& span : spans) {
    const size_t process = number_of(processes, span.process);
    if (process > tracks.size()) {
      tracks.emplace_back();
      events.push_back(naming("process_name", process, 0, span.process));
    }
    std::vector<std::string>& of_process = tracks[process - 1];
    const size_t before = of_process.size();
    const size_t track = number_of(of_process, span.track);
    if (track > before) events.push_back(naming("thread_name", process, track, span.track));
    events.push_back({{"ph", "X"},
                      {"name", span.name},
                      {"pid", process},
                      {"tid", track},
                      {"ts", (span.begin - first) * kMicroseconds},
                      {"dur", (span.end - span.begin) * kMicroseconds}});
  }
  return TraceJson{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump() + "\n";
}

}  // namespace lockstep::observe
