#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/links.h"

namespace lockstep::sim {

struct Message {
  int from;
  int to;
  int64_t bytes;
  double begin;    ///< seconds; links can carry it from then on
  double end = 0;  ///< when the last link of its path is done with it, without latency
};

/// The links of a network while a plan runs. Rounds come one after another.
class Traffic {
 public:
  Traffic(const Network& network, int world);

  const Links& links() const { return links_; }

  /// Sets `end` of a round's messages.
  void carry(std::vector<Message>& messages);

  /// Seconds that each link was busy so far.
  std::vector<double> busy() const;

 private:
  void carry_together(std::vector<Message>& messages, double begin, int64_t hops);
  void carry_apart(std::vector<Message>& messages);
  void sort_by_link(const std::vector<Message>& messages);
  /// When `link` can begin to serve a message that begins at `begin`.
  double entry(size_t link, double begin) const;
  double share(std::span<int> crossing, std::vector<Message>& messages, int link);

  Links links_;
  // By link: when it is done with the rounds so far. A link with a token bucket may be early: it
  // serves as if it had begun when the bucket began to fill, up to burst_/speed ago.
  std::vector<double> free_;
  int64_t burst_;
  std::vector<int64_t> bytes_;  // by link: that it carried so far

  // Of one round; members only to keep their memory.
  std::vector<int64_t> load_;    // by link
  std::vector<int64_t> offset_;  // by link, into crossing_
  std::vector<int> crossing_;    // messages, link after link
  std::vector<double> target_;
};

}  // namespace lockstep::sim
