// How messages share links.
//
// A message is a flow: it crosses all links of its path at once, and ends when the slowest of them
// is done with it. A link serves all messages of a round that cross it at the same time, each in
// proportion to its size, like interleaved packets of many connections. So messages that begin
// together end together, no message waits for another that happens to be listed first, and a link
// with work is never idle: its last byte leaves when it would in any fair order of service. The
// clock of a link advances by one while it serves everything that its present messages need; a
// message that enters when the clock shows c ends when it shows c + 1. So messages end in the order
// in which they began, and no queue has to be searched.
//
// Two simplifications keep the cost of a message proportional to the length of its path. A link's
// bandwidth is divided as if its messages were delayed nowhere else. And a link serves a round's
// messages after those of all rounds before it, even if they begin earlier. The second matters only
// where ranks that are rounds apart share a link: never on a switch with `eager_bytes` 0, where a
// link's round begins after both its ends have finished the one before.
//
// A round whose messages all begin together, as in most rounds, needs only the load of each link.
// In a round of more than kMostFollowed crossings, all messages are taken to begin with the last
// one.
#include "sim/traffic.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace lockstep::sim {
namespace {

constexpr int64_t kMostFollowed = int64_t{1} << 23;

// The maximum of any run of values in constant time: row k holds the maximum of 2^k neighbours.
class RangeMaximum {
 public:
  explicit RangeMaximum(const std::vector<double>& values) : rows_{values} {
    for (size_t width = 1; 2 * width <= values.size(); width *= 2) {
      const std::vector<double>& narrow = rows_.back();
      std::vector<double> wide(values.size() - 2 * width + 1);
      for (size_t i = 0; i < wide.size(); ++i) wide[i] = std::max(narrow[i], narrow[i + width]);
      rows_.push_back(std::move(wide));
    }
  }

  double operator()(LinkRange run) const {
    const auto width = std::bit_floor(static_cast<unsigned>(run.size()));
    const std::vector<double>& row = rows_[static_cast<size_t>(std::countr_zero(width))];
    return std::max(row[run.begin], row[run.end - static_cast<int>(width)]);
  }

 private:
  std::vector<std::vector<double>> rows_;
};

template <typename Greatest>
void end_with_links(std::vector<Message>& messages, const Links& links, const Greatest& greatest) {
  for (Message& message : messages) {
    message.end = message.begin;
    for (const LinkRange run : links.path(message.from, message.to).runs)
      if (run.size() > 0) message.end = std::max(message.end, greatest(run));
  }
}

}  // namespace

Traffic::Traffic(const Network& network, int world)
    : links_(network, world),
      free_(static_cast<size_t>(links_.size()), -std::numeric_limits<double>::infinity()),
      burst_(network.burst_bytes),
      bytes_(static_cast<size_t>(links_.size())) {}

double Traffic::entry(size_t link, double begin) const {
  const double credit =
      static_cast<double>(burst_) / links_.bytes_per_second(static_cast<int>(link));
  return std::max(begin - credit, free_[link]);
}

void Traffic::carry(std::vector<Message>& messages) {
  if (messages.empty()) return;
  int64_t hops = 0;
  double first = messages[0].begin;
  double last = first;
  for (const Message& message : messages) {
    hops += links_.path(message.from, message.to).hops();
    first = std::min(first, message.begin);
    last = std::max(last, message.begin);
  }
  if (first == last || hops > kMostFollowed)
    carry_together(messages, last, hops);
  else
    carry_apart(messages);
}

void Traffic::carry_together(std::vector<Message>& messages, double begin, int64_t hops) {
  // Loads as differences between neighbouring links: a long path costs no more than a short one.
  load_.assign(free_.size() + 1, 0);
  for (const Message& message : messages)
    for (const LinkRange run : links_.path(message.from, message.to).runs) {
      load_[run.begin] += message.bytes;
      load_[run.end] -= message.bytes;
    }
  int64_t load = 0;
  for (size_t link = 0; link < free_.size(); ++link) {
    load += load_[link];
    if (load == 0) continue;
    bytes_[link] += load;
    free_[link] = entry(link, begin) +
                  static_cast<double>(load) / links_.bytes_per_second(static_cast<int>(link));
  }
  constexpr int64_t kTableWorth = 32;
  if (hops > kTableWorth * links_.size() && hops > kTableWorth * std::ssize(messages))
    return end_with_links(messages, links_, RangeMaximum(free_));
  end_with_links(messages, links_, [this](LinkRange run) {
    return *std::max_element(free_.begin() + run.begin, free_.begin() + run.end);
  });
}

void Traffic::carry_apart(std::vector<Message>& messages) {
  sort_by_link(messages);
  for (Message& message : messages) message.end = message.begin;
  for (int link = 0; link < links_.size(); ++link) {
    const auto begin = static_cast<size_t>(offset_[link]);
    const auto end = static_cast<size_t>(offset_[link + 1]);
    if (begin < end) free_[link] = share({crossing_.data() + begin, end - begin}, messages, link);
  }
}

void Traffic::sort_by_link(const std::vector<Message>& messages) {
  offset_.assign(free_.size() + 2, 0);
  const auto for_each_crossing = [&](const auto& visit) {
    for (size_t i = 0; i < messages.size(); ++i)
      for (const LinkRange run : links_.path(messages[i].from, messages[i].to).runs)
        for (int link = run.begin; link < run.end; ++link) visit(static_cast<int>(i), link);
  };
  // Counted two places on, so that filling moves every offset to where its link's run begins.
  for_each_crossing([&](int, int link) { ++offset_[link + 2]; });
  std::partial_sum(offset_.begin(), offset_.end(), offset_.begin());
  crossing_.resize(static_cast<size_t>(offset_.back()));
  for_each_crossing([&](int message, int link) { crossing_[offset_[link + 1]++] = message; });
}

double Traffic::share(std::span<int> crossing, std::vector<Message>& messages, int link) {
  const auto earlier = [&](int a, int b) { return messages[a].begin < messages[b].begin; };
  if (!std::is_sorted(crossing.begin(), crossing.end(), earlier))
    std::stable_sort(crossing.begin(), crossing.end(), earlier);
  const double speed = links_.bytes_per_second(link);
  double now = 0;
  double clock = 0;
  int64_t present = 0;  // bytes of the messages being served
  size_t head = 0;      // the oldest of them
  const auto head_ends = [&] {
    return now + (target_[head] - clock) * static_cast<double>(present) / speed;
  };
  const auto end_head = [&] {
    now = head_ends();
    clock = target_[head];
    Message& message = messages[crossing[head++]];
    message.end = std::max(message.end, now);
    present -= message.bytes;
  };
  target_.clear();
  for (const int index : crossing) {
    const double enters = entry(static_cast<size_t>(link), messages[index].begin);
    while (head < target_.size() && head_ends() <= enters) end_head();
    const bool idle = head == target_.size();
    clock = idle ? 0 : clock + (enters - now) * speed / static_cast<double>(present);
    now = enters;
    target_.push_back(clock + 1);
    present += messages[index].bytes;
    bytes_[link] += messages[index].bytes;
  }
  while (head < target_.size()) end_head();
  return now;
}

std::vector<double> Traffic::busy() const {
  std::vector<double> seconds(bytes_.begin(), bytes_.end());
  for (int link = 0; link < links_.size(); ++link) seconds[link] /= links_.bytes_per_second(link);
  return seconds;
}

}  // namespace lockstep::sim
