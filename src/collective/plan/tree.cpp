// Plans along the rank tree, towards a root and away from it.
//
// Each part of a node has a *leader*: the root if it is in that part, else the part's first rank.
// One of the two leads the whole node. Up: the other one sends it its sum, and it adds; so after
// level k the leader of every node up to that level holds the node's sum. Down: the reverse,
// without adding.
#include <memory>

#include "collective/plan/all_reduce.h"
#include "collective/plan/collectives.h"
#include "collective/plan/rank_tree.h"

namespace lockstep::collective {
namespace {

int leader(int begin, int end, int root) {
  return begin <= root && root < end ? root : begin;
}

/// The leaders of a node's parts; `above` leads the whole node.
struct Pair {
  int above;
  int below;
};

Pair pair_at(const Node& node, int root) {
  const int left = leader(node.begin, node.middle, root);
  const int right = leader(node.middle, node.end, root);
  return right == root ? Pair{right, left} : Pair{left, right};
}

Plan up(const std::shared_ptr<const Start>& start, int root) {
  const int levels = start->tree().depth();
  const auto round = [=](int rank, int level) {
    Round result;
    const auto node = start->tree().node(rank, level);
    if (!node) return result;
    const auto [above, below] = pair_at(*node, root);
    if (rank == below) result.send(above, start->sum(rank, *node), start->whole());
    if (rank != above) return result;
    start->add_from(result, rank, *node, below, start->whole());
    if (level == levels - 1) result.finish(start->whole());
    return result;
  };
  return {start->world_size(), start->count(), levels, start->slots(), round};
}

Plan down(const std::shared_ptr<const Start>& start, int root) {
  const int levels = start->tree().depth();
  const auto round = [=](int rank, int index) {
    Round result;
    const auto node = start->tree().node(rank, levels - 1 - index);
    if (!node) return result;
    const auto [above, below] = pair_at(*node, root);
    if (rank == above) result.send(below, kBucket, start->whole());
    if (rank == below) result.receive(above, kBucket, start->whole());
    return result;
  };
  return {start->world_size(), start->count(), levels, 1, round};
}

Plan tree(const Shards& shards, int64_t count) {
  const auto start = std::make_shared<const Start>(shards, count);
  return sequence(Start::plan(start), sequence(up(start, 0), down(start, 0)));
}

[[maybe_unused]] const bool tree_added =
    algorithms().add({.name = "tree",
                      .about = "up a binary tree to rank 0, which has the sum, and down again",
                      .rounds = "2 ceil(log2 n)",
                      .cost = "2 log2(n) (latency + size/bandwidth)",
                      .canonical = true,
                      .pairwise = true,
                      .make = tree});

}  // namespace

Plan reduce(const Shards& shards, int64_t count, int root) {
  if (shards.world_size() == 1) return finish_alone(shards, count);
  const auto start = std::make_shared<const Start>(shards, count);
  return sequence(Start::plan(start), up(start, root));
}

Plan broadcast(int world, int64_t count, int root, BroadcastBy by) {
  if (by == BroadcastBy::slices)
    return sequence(scatter(world, count, root), all_gather(world, count));
  return down(std::make_shared<const Start>(Shards::even(world, world), count), root);
}

}  // namespace lockstep::collective
