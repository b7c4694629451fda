// All-reduce in about 2 log2 n rounds that sends as few bytes as any all-reduce can, for any n.
//
// A rank's *share* is the part of the bucket that it is responsible for. Before level 0 every
// rank's share is the whole bucket; after the last level the shares cut the bucket into n. The
// invariant: after level k, the shares of a node's ranks cut the bucket into equal parts, and each
// rank holds the node's sum over its share. To get there from a node's two sides, p ranks to the
// left and q to the right: wherever a left share and a right share overlap, the left rank keeps
// p/(p+q) of the overlap and the right rank the rest; each sends the other what it gives up. A
// share shrinks from 1/p to 1/(p+q), so over all levels a rank sends 1 - 1/n of the bucket.
//
// Then the shares are gathered. Where the tree is perfect, that is the first half backwards, in
// which ranges merge as they double. Elsewhere that would make some ranks send more than others, so
// shares travel by Bruck's algorithm (data_movement.cpp), again 1 - 1/n of the bucket.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "collective/plan/all_reduce.h"
#include "collective/plan/collectives.h"
#include "collective/plan/rank_tree.h"

namespace lockstep::collective {
namespace {

// How an overlap is divided: the left rank keeps [begin, cut), the right rank [cut, end).
// Cutting at fixed places of the whole bucket keeps rounding errors from accumulating.
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

enum class Side { left, right };

// What the rank on `side` keeps of its overlaps with a rank of the other side.
Share kept_by(Side side, const Share& met, const Node& node) {
  Share kept;
  for (const Range& overlap : met) {
    const int64_t at = cut(overlap, node.middle - node.begin, node.end - node.middle);
    const Range range = side == Side::left ? Range{overlap.begin, at} : Range{at, overlap.end};
    if (!range.empty()) kept.push_back(range);
  }
  return kept;
}

/// shares[level][rank], before that level.
using Shares = std::vector<std::vector<Share>>;

// The ranks of the node's other side whose shares overlap this rank's. Sides of equal size are cut
// in the same way: then it is the one in the same place.
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
    const Share kept = kept_by(rank < node.middle ? Side::left : Side::right, met, node);
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
  const Side mine = rank < node->middle ? Side::left : Side::right;
  const Side theirs = mine == Side::left ? Side::right : Side::left;
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

// Every message in the opposite direction, last round first.
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

Plan halving_doubling(const Shards& shards, int64_t count) {
  const auto start = std::make_shared<const Start>(shards, count);
  const auto shares = std::make_shared<const Shares>(all_shares(*start));
  const Plan scatter = scatter_shares(start, shares);
  const bool perfect = start->world_size() == 1 << start->tree().depth();
  const Plan gather = perfect ? backwards(scatter) : all_gather(shares->back(), count);
  return sequence(Start::plan(start), sequence(scatter, gather));
}

[[maybe_unused]] const bool halving_doubling_added = algorithms().add(
    {.name = "halving_doubling",
     .about = "both halves of a node exchange what the other keeps; then all gather",
     .rounds = "2 ceil(log2 n)",
     .cost = "2 log2(n) latency + 2 (n-1)/n size/bandwidth",
     .canonical = true,
     .pairwise = true,
     .make = halving_doubling});

}  // namespace
}  // namespace lockstep::collective
