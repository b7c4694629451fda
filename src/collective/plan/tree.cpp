// Plans along the rank tree, towards a root and away from it.
//
// Each node has a *speaker* for each of its parts: the root if it is in that part, else the part's
// first rank. Up: the speaker of the part without the node's own speaker sends to the one that
// speaks for the node, which adds; so after level k, the speaker of every node up to there holds
// its sum. Down: the reverse, nothing is added.
#include "collective/plan/tree.h"

#include "collective/plan/all_gather.h"
#include "collective/plan/gather.h"
#include "lockstep/error.h"

namespace lockstep::collective {
namespace {

int speaker(int begin, int end, int root) {
  return begin <= root && root < end ? root : begin;
}

/// Who meets at a node: one speaks for both parts afterwards.
struct Pair {
  int above;
  int below;
};

Pair pair_at(const Node& node, int root) {
  const int left = speaker(node.begin, node.middle, root);
  const int right = speaker(node.middle, node.end, root);
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

}  // namespace

Plan tree(const std::shared_ptr<const Start>& start) {
  return sequence(up(start, 0), down(start, 0));
}

Plan reduce(const Shards& shards, int64_t count, int root) {
  check_root(root, shards.world_size());
  if (shards.world_size() == 1) return finish_alone(shards, count);
  const auto start = std::make_shared<const Start>(shards, count);
  return sequence(Start::plan(start), up(start, root));
}

Plan broadcast(int world, int64_t count, int root) {
  check_root(root, world);
  return down(std::make_shared<const Start>(Shards::even(world, world), count), root);
}

Plan broadcast_slices(int world, int64_t count, int root) {
  return sequence(scatter(world, count, root), all_gather(world, count));
}

void check_root(int root, int world) {
  if (root < 0 || root >= world)
    throw BadInput("root {}: no such rank; expected 0 to {}", root, world - 1);
}

}  // namespace lockstep::collective
