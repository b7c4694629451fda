// All-reduce in about 2 log2 n rounds that sends as little as can be, for any n.
//
// A rank's *share* is the part of the bucket it is responsible for. Before level 0 every rank's
// share is the whole bucket; after the last level the shares cut the bucket into n. The invariant:
// after level k, the shares of a node's ranks cut the bucket into equal parts, and each rank holds
// the node's sum over its share. To get there from a node's two parts, p ranks to the left and q to
// the right: wherever a left share and a right share meet, the left rank keeps p/(p+q) of the
// overlap and the right rank the rest; each sends the other what it gives up. A share shrinks from
// 1/p to 1/(p+q), so over all levels a rank sends 1 - 1/n of the bucket.
//
// Then the shares are gathered. Where the tree is perfect that is the first half backwards, in
// which ranges merge as they double. Elsewhere that would make some ranks send more than others, so
// shares travel by Bruck's scheme (all_gather.cpp), again 1 - 1/n of the bucket.
#include "collective/plan/halving_doubling.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "collective/plan/all_gather.h"

namespace lockstep::collective {
namespace {

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

Shares all_shares(const Start& start) {
  const int world = start.world_size();
  Shares shares = {std::vector<Share>(static_cast<size_t>(world), Share{start.whole()})};
  for (int level = 0; level < start.tree().depth(); ++level) {
    std::vector<Share> next = shares.back();
    for (int rank = 0; rank < world; ++rank)
      if (const auto node = start.tree().node(rank, level))
        next[rank] = share_after(shares.back(), rank, *node);
    shares.push_back(std::move(next));
  }
  return shares;
}

Round scatter_round(const Start& start, const std::vector<Share>& shares, int rank, int level) {
  Round round;
  const auto node = start.tree().node(rank, level);
  if (!node) return round;
  const Part mine = rank < node->middle ? Part::left : Part::right;
  const Part theirs = mine == Part::left ? Part::right : Part::left;
  for_each_peer(shares, rank, *node, [&](int peer, const Share& met) {
    for (const Range& range : kept_by(theirs, met, *node))
      round.send(peer, start.sum(rank, *node), range);
    for (const Range& range : kept_by(mine, met, *node))
      start.add_from(round, rank, *node, peer, range);
  });
  return round;
}

Plan scatter_shares(const std::shared_ptr<const Start>& start,
                    const std::shared_ptr<const Shares>& shares) {
  const int levels = start->tree().depth();
  const auto round = [=](int rank, int level) {
    Round result = scatter_round(*start, (*shares)[level], rank, level);
    if (level == levels - 1)
      for (const Range& range : shares->back()[rank]) result.finish(range);
    return result;
  };
  return {start->world_size(), start->count(), levels, start->slots(), round};
}

// What was sent comes back, what was received goes back.
Plan backwards(const Plan& scatter) {
  const auto round = [forwards = scatter.round, last = scatter.rounds - 1](int rank, int index) {
    Round result;
    const Round there = forwards(rank, last - index);
    for (const Send& sent : there.sends) result.receive(sent.peer, kBucket, sent.range);
    for (const Receive& received : there.receives)
      result.send(received.peer, kBucket, received.range);
    return result;
  };
  return {scatter.world, scatter.count, scatter.rounds, 1, round};
}

}  // namespace

Plan halving_doubling(const std::shared_ptr<const Start>& start) {
  const auto shares = std::make_shared<const Shares>(all_shares(*start));
  const Plan scatter = scatter_shares(start, shares);
  const bool perfect = start->world_size() == 1 << start->tree().depth();
  if (perfect) return sequence(scatter, backwards(scatter));
  return sequence(scatter, all_gather(shares->back(), start->count()));
}

}  // namespace lockstep::collective
