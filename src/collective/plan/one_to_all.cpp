// All-reduce by a root, rank 0, that collects one bucket after another and then sends the sum.
//
// The root adds as a binary counter counts: it keeps a stack of sums, one for each node whose left
// part is complete and whose right part is not. A bucket that arrives goes on top; every node it
// completes folds the two topmost sums into one. The stack is never higher than the tree, so about
// log2 n scratch slots do for n ranks.
#include "collective/plan/one_to_all.h"

#include <algorithm>

namespace lockstep::collective {
namespace {

/// What happens on the root's stack when `rank`'s bucket arrives.
struct Arrival {
  int height = 0;     ///< of the stack before: nodes in whose right part the rank is
  int completed = 0;  ///< nodes whose last rank this is
};

Arrival arrival_of(const RankTree& tree, int rank) {
  Arrival arrival;
  for (int level = 0; level < tree.depth(); ++level)
    if (const auto node = tree.node(rank, level)) {
      if (rank >= node->middle) ++arrival.height;
      if (rank == node->end - 1) ++arrival.completed;
    }
  return arrival;
}

Round collect(const Start& start, int peer) {
  const Arrival arrival = arrival_of(start.tree(), peer);
  const auto slot_at = [&](int height) {
    return height == 0 ? kBucket : start.scratch(0) + height - 1;
  };
  Round round;
  round.receive(peer, slot_at(arrival.height), start.whole());
  for (int i = 0; i < arrival.completed; ++i) {
    const int top = arrival.height - i;
    round.fold(slot_at(top - 1), slot_at(top), start.whole());
  }
  if (peer == start.world_size() - 1) round.finish(start.whole());
  return round;
}

}  // namespace

Plan one_to_all(const std::shared_ptr<const Start>& start) {
  const int others = start->world_size() - 1;
  const auto round = [=](int rank, int index) {
    const bool collecting = index < others;
    const int peer = 1 + index % others;
    Round result;
    if (rank == 0 && collecting) return collect(*start, peer);
    if (rank == 0) result.send(peer, kBucket, start->whole());
    if (rank != peer) return result;
    if (collecting)
      result.send(0, start->held(rank), start->whole());
    else
      result.receive(0, kBucket, start->whole());
    return result;
  };
  int highest = 0;
  for (int rank = 1; rank <= others; ++rank)
    highest = std::max(highest, arrival_of(start->tree(), rank).height);
  return {start->world_size(), start->count(), 2 * others, start->scratch(0) + highest, round};
}

}  // namespace lockstep::collective
