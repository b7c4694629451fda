// All-reduce in 2 ceil(log2 n) rounds that sends as little as can be, for any n.
//
// A rank's *share* is the part of the bucket it is responsible for. Before level 0 every rank's
// share is the whole bucket; after the last level the shares cut the bucket into n. The invariant:
// after level k, the shares of a node's ranks cut the bucket into equal parts, and each rank holds
// the node's sum over its share. To get there from a node's two parts, p ranks to the left and q to
// the right: wherever a left share and a right share meet, the left rank keeps p/(p+q) of the
// overlap and the right rank the rest; each sends the other what it gives up. A share shrinks from
// 1/p to 1/(p+q), so over all levels a rank sends 1 - 1/n of the bucket.
//
// Then the shares are gathered. On a power of two that is the first half backwards, in which ranges
// merge as they double. Elsewhere that would make some ranks send more than others, so shares
// travel by Bruck's scheme: in round k a rank passes on all it has, at most 2^k shares, to the rank
// 2^k before it, again 1 - 1/n of the bucket.
#include "collective/halving_doubling.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "collective/order.h"

namespace lockstep::collective {
namespace {

using Share = std::vector<Range>;

// How an overlap is divided: the left rank keeps [begin, cut), the right rank [cut, end).
// Cutting at fixed places of the whole bucket keeps rounding from adding up.
int64_t cut(Range overlap, int64_t left, int64_t right) {
  const auto kept_before = [&](int64_t at) { return at * left / (left + right); };
  return overlap.begin + kept_before(overlap.end) - kept_before(overlap.begin);
}

Share overlaps(const Share& a, const Share& b) {
  Share found;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Range overlap{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (!overlap.empty()) found.push_back(overlap);
    (a[i].end < b[j].end ? i : j) += 1;
  }
  return found;
}

enum class Part { left, right };

// What the rank on `part`'s side keeps of its overlaps with a rank of the other side.
Share kept_by(Part part, const Share& met, const Node& node) {
  Share kept;
  for (const Range& overlap : met) {
    const int64_t at = cut(overlap, node.middle - node.begin, node.end - node.middle);
    const Range range = part == Part::left ? Range{overlap.begin, at} : Range{at, overlap.end};
    if (!range.empty()) kept.push_back(range);
  }
  return kept;
}

/// shares[level][rank], before that level.
using Shares = std::vector<std::vector<Share>>;

// The ranks of the node's other part whose shares meet this rank's. Equal parts are cut alike: then
// it is the one in the same place.
template <typename Visit>
void for_each_peer(const std::vector<Share>& shares, int rank, const Node& node,
                   const Visit& visit) {
  const bool on_left = rank < node.middle;
  const int first = on_left ? node.middle : node.begin;
  const int last = on_left ? node.end : node.middle;
  const int mirror = first + rank - (on_left ? node.begin : node.middle);
  if (mirror < last && shares[mirror] == shares[rank]) return visit(mirror, shares[rank]);
  for (int peer = first; peer < last; ++peer)
    if (const Share met = overlaps(shares[rank], shares[peer]); !met.empty()) visit(peer, met);
}

Share share_after(const std::vector<Share>& shares, int rank, const Node& node) {
  Share share;
  for_each_peer(shares, rank, node, [&](int, const Share& met) {
    const Share kept = kept_by(rank < node.middle ? Part::left : Part::right, met, node);
    share.insert(share.end(), kept.begin(), kept.end());
  });
  std::sort(share.begin(), share.end(), [](Range a, Range b) { return a.begin < b.begin; });
  return share;
}

Shares all_shares(int world, int64_t count) {
  Shares shares = {std::vector<Share>(static_cast<size_t>(world), Share{{0, count}})};
  for (int level = 0; level < depth(world); ++level) {
    std::vector<Share> next = shares.back();
    for (int rank = 0; rank < world; ++rank)
      if (const auto node = find_node(world, rank, level))
        next[rank] = share_after(shares.back(), rank, *node);
    shares.push_back(std::move(next));
  }
  return shares;
}

Round scatter_round(const Shares& shares, int world, int rank, int level) {
  Round round;
  const auto node = find_node(world, rank, level);
  if (!node) return round;
  const Part mine = rank < node->middle ? Part::left : Part::right;
  const Part theirs = mine == Part::left ? Part::right : Part::left;
  for_each_peer(shares[level], rank, *node, [&](int peer, const Share& met) {
    for (const Range& range : kept_by(theirs, met, *node))
      round.sends.push_back({peer, kBucket, range});
    for (const Range& range : kept_by(mine, met, *node)) {
      round.receives.push_back({peer, 1, range});
      round.folds.push_back({kBucket, 1, range});
    }
  });
  return round;
}

// What was sent comes back, what was received goes back.
Round backwards(const Round& scatter) {
  Round round;
  for (const Send& sent : scatter.sends) round.receives.push_back({sent.peer, kBucket, sent.range});
  for (const Receive& received : scatter.receives)
    round.sends.push_back({received.peer, kBucket, received.range});
  return round;
}

Round bruck_round(const std::vector<Share>& shares, int world, int rank, int index) {
  Round round;
  const int distance = 1 << index;
  const int before = (rank - distance + world) % world;
  const int after = (rank + distance) % world;
  for (int i = 0; i < std::min(distance, world - distance); ++i) {
    for (const Range& range : shares[(rank + i) % world])
      round.sends.push_back({before, kBucket, range});
    for (const Range& range : shares[(after + i) % world])
      round.receives.push_back({after, kBucket, range});
  }
  return round;
}

}  // namespace

Plan halving_doubling(int world, int64_t count) {
  const int levels = depth(world);
  const auto shares = std::make_shared<const Shares>(all_shares(world, count));
  const bool power_of_two = std::has_single_bit(static_cast<unsigned>(world));
  return {world, count, 2 * levels, 2, [=](int rank, int index) {
            if (index < levels) return scatter_round(*shares, world, rank, index);
            if (!power_of_two) return bruck_round(shares->back(), world, rank, index - levels);
            return backwards(scatter_round(*shares, world, rank, 2 * levels - 1 - index));
          }};
}

}  // namespace lockstep::collective
