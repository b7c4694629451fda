// All-gather by Bruck's scheme, for any number of ranks.
//
// Before round k, rank r has the shares of ranks r .. r + 2^k - 1 (counted round, and at most all).
// It passes them on to rank r - 2^k and gets as many from rank r + 2^k, or just those that are
// still missing; so over all rounds a rank sends as much as it gets: everything but one share.
#include "collective/all_gather.h"

#include <algorithm>
#include <utility>

#include "collective/order.h"
#include "collective/slice.h"

namespace lockstep::collective {
namespace {

// Neighbours become one message.
Share join(const std::vector<Share>& shares, int first, int size) {
  Share joined;
  for (int i = 0; i < size; ++i)
    for (const Range& range : shares[static_cast<size_t>(first + i) % shares.size()]) {
      if (range.empty()) continue;
      if (!joined.empty() && joined.back().end == range.begin)
        joined.back().end = range.end;
      else
        joined.push_back(range);
    }
  return joined;
}

}  // namespace

Plan all_gather(int world, int64_t count) {
  std::vector<Share> slices;
  for (int rank = 0; rank < world; ++rank) slices.push_back({slice(count, world, rank)});
  return all_gather(std::make_shared<const std::vector<Share>>(std::move(slices)), count);
}

Plan all_gather(std::shared_ptr<const std::vector<Share>> shares, int64_t count) {
  const int world = static_cast<int>(shares->size());
  const auto round = [=](int rank, int index) {
    Round result;
    const int distance = 1 << index;
    const int size = std::min(distance, world - distance);
    const int before = (rank - distance + world) % world;
    const int after = (rank + distance) % world;
    for (const Range& range : join(*shares, rank, size)) result.send(before, kBucket, range);
    for (const Range& range : join(*shares, after, size)) result.receive(after, kBucket, range);
    return result;
  };
  return {world, count, depth(world), 1, round};
}

}  // namespace lockstep::collective
