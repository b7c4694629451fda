// All-reduce in as many rounds as the rank tree has levels.
//
// At each node every rank receives the other part's sum from a rank of that part, and adds it, so
// that after level k every rank of a node of that level holds the node's sum. The ranks of both
// parts are counted from 0; rank i of the smaller part exchanges with rank i of the larger one, and
// also sends to ranks i + s, i + 2s, ..., where s is the size of the smaller part.
#include <memory>

#include "collective/plan/all_reduce.h"
#include "collective/plan/rank_tree.h"

namespace lockstep::collective {
namespace {

Round exchange(const Start& start, int rank, const Node& node) {
  Round round;
  const int own_begin = rank < node.middle ? node.begin : node.middle;
  const int other_begin = rank < node.middle ? node.middle : node.begin;
  const int own_size = node.part_of(rank);
  const int other_size = node.end - node.begin - own_size;
  const int place = rank - own_begin;
  for (int other = place; other < other_size; other += own_size)
    round.send(other_begin + other, start.sum(rank, node), start.whole());
  start.add_from(round, rank, node, other_begin + place % other_size, start.whole());
  return round;
}

Plan butterfly(const Shards& shards, int64_t count) {
  const auto start = std::make_shared<const Start>(shards, count);
  const int levels = start->tree().depth();
  const auto round = [=](int rank, int level) {
    const auto node = start->tree().node(rank, level);
    Round result = node ? exchange(*start, rank, *node) : Round{};
    if (level == levels - 1) result.finish(start->whole());
    return result;
  };
  return sequence(Start::plan(start),
                  {start->world_size(), start->count(), levels, start->slots(), round});
}

[[maybe_unused]] const bool butterfly_added =
    algorithms().add({.name = "butterfly",
                      .about = "both halves of every node of a binary tree exchange whole buckets",
                      .rounds = "ceil(log2 n)",
                      .cost = "log2(n) (latency + size/bandwidth)",
                      .canonical = true,
                      .pairwise = true,
                      .make = butterfly});

}  // namespace
}  // namespace lockstep::collective
