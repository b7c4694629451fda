// All-reduce by a root, rank 0, that collects one bucket after another and then sends the sum.
//
// The root adds as a binary counter counts: it keeps a stack of sums, one for each node whose left
// part is complete and whose right part is not. A bucket that arrives goes on top; every node that
// it completes folds the two topmost sums into one. The stack is never higher than the tree, so
// about log2 n scratch slots are enough for n ranks.
#include <algorithm>
#include <memory>

#include "collective/plan/all_reduce.h"
#include "collective/plan/rank_tree.h"

namespace lockstep::collective {
namespace {

/// What happens to the root's stack when `rank`'s bucket arrives.
struct StackChange {
  int height = 0;     ///< of the stack before: the number of nodes in whose right part the rank is
  int completed = 0;  ///< nodes whose last rank this is
};

StackChange change_by(const RankTree& tree, int rank) {
  StackChange change;
  for (int level = 0; level < tree.depth(); ++level)
    if (const auto node = tree.node(rank, level)) {
      if (rank >= node->middle) ++change.height;
      if (rank == node->end - 1) ++change.completed;
    }
  return change;
}

Round collect(const Start& start, int peer) {
  const StackChange change = change_by(start.tree(), peer);
  const auto slot_at = [&](int height) {
    return height == 0 ? kBucket : start.scratch(0) + height - 1;
  };
  Round round;
  round.receive(peer, slot_at(change.height), start.whole());
  for (int i = 0; i < change.completed; ++i) {
    const int top = change.height - i;
    round.fold(slot_at(top - 1), slot_at(top), start.whole());
  }
  if (peer == start.world_size() - 1) round.finish(start.whole());
  return round;
}

Plan one_to_all(const Shards& shards, int64_t count) {
  const auto start = std::make_shared<const Start>(shards, count);
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
    highest = std::max(highest, change_by(start->tree(), rank).height);
  return sequence(Start::plan(start), {start->world_size(), start->count(), 2 * others,
                                       start->scratch(0) + highest, round});
}

[[maybe_unused]] const bool one_to_all_added = algorithms().add(
    {.name = "one_to_all",
     .about = "rank 0 collects one bucket after another, then sends the sum to each",
     .rounds = "2 (n-1)",
     .cost = "2 (n-1) (latency + size/bandwidth)",
     .canonical = true,
     .pairwise = true,
     .make = one_to_all});

}  // namespace
}  // namespace lockstep::collective
