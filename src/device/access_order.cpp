#include "device/access_order.h"

#include <algorithm>

namespace lockstep::device {
namespace {

// An entry that a clock lacks is 0.
Stream::Moment entry(const Clock& clock, size_t stream) {
  return stream < clock.size() ? clock[stream] : 0;
}

void advance(Clock& clock, const Clock& to) {
  clock.resize(std::max(clock.size(), to.size()));
  for (size_t i = 0; i < to.size(); ++i) clock[i] = std::max(clock[i], to[i]);
}

bool begin_and_end_together(const Access& a, const Access& b) {
  return a.begin == b.begin && a.end == b.end;
}

// Two accesses with gaps may use different bytes, unless they begin and end together.
bool overlap(const Access& a, const Access& b) {
  return a.begin < b.end && b.begin < a.end && (a.dense || b.dense || begin_and_end_together(a, b));
}

// Whether all that overlaps the inner access overlaps the outer one, too.
bool contains(const Access& outer, const Access& inner) {
  if (!outer.dense) return !inner.dense && begin_and_end_together(outer, inner);
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

}  // namespace

size_t AccessOrder::add_stream() {
  clocks_.emplace_back();
  return clocks_.size() - 1;
}

Clock AccessOrder::at(size_t stream, Stream::Moment now) const {
  Clock clock = clocks_[stream];
  clock.resize(std::max(clock.size(), stream + 1));
  clock[stream] = now;
  return clock;
}

void AccessOrder::wait(size_t stream, const Clock& clock) {
  advance(clocks_[stream], clock);
}

void AccessOrder::host_waited(const Clock& clock) {
  advance(host_, clock);
}

bool AccessOrder::ordered(const Access& earlier, size_t stream) const {
  return earlier.stream == stream || entry(clocks_[stream], earlier.stream) >= earlier.moment ||
         entry(host_, earlier.stream) >= earlier.moment;
}

std::optional<Access> AccessOrder::add(AccessHistory& history, const Access& access) const {
  for (const Access& earlier : history)
    if ((earlier.written || access.written) && overlap(earlier, access) &&
        !ordered(earlier, access.stream))
      return earlier;
  // What is compared with this access need not be compared with what it replaces; and nothing need
  // be compared with what the host has waited for.
  std::erase_if(history, [&](const Access& earlier) {
    const bool replaced = access.written || (!earlier.written && earlier.stream == access.stream);
    return (replaced && contains(access, earlier)) ||
           entry(host_, earlier.stream) >= earlier.moment;
  });
  history.push_back(access);
  return std::nullopt;
}

}  // namespace lockstep::device
