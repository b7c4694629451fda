#include "collective/cost.h"

#include <algorithm>
#include <vector>

namespace lockstep::collective {
namespace {

template <typename Messages>
int64_t bytes_of(const Messages& messages, int64_t element_bytes) {
  int64_t elements = 0;
  for (const auto& message : messages) elements += message.range.size();
  return elements * element_bytes;
}

}  // namespace

Cost cost_of(const Plan& plan, int64_t element_bytes, const Network& network) {
  Cost cost{.rounds = plan.rounds};
  std::vector<int64_t> sent(static_cast<size_t>(plan.world));
  for (int index = 0; index < plan.rounds; ++index) {
    int64_t longest = 0;
    bool anything = false;
    for (int rank = 0; rank < plan.world; ++rank) {
      const Round round = plan.round(rank, index);
      const int64_t out = bytes_of(round.sends, element_bytes);
      const int64_t in = bytes_of(round.receives, element_bytes);
      cost.messages += static_cast<int64_t>(round.sends.size());
      anything = anything || !round.sends.empty();
      longest = std::max({longest, out, in});
      sent[static_cast<size_t>(rank)] += out;
    }
    if (anything)
      cost.seconds += network.latency + static_cast<double>(longest) / network.bytes_per_second;
  }
  cost.bytes_most = *std::max_element(sent.begin(), sent.end());
  return cost;
}

}  // namespace lockstep::collective
