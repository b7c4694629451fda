// All-reduce in as many rounds as the tree is high.
//
// At each node every rank gets the other part's sum from a rank of that part, and adds it, so that
// after level k every rank of a node of that level holds the node's sum. Both parts of a node count
// their ranks from 0; rank i of the smaller part exchanges with rank i of the larger, and also
// serves ranks i + s, i + 2s, ..., where s is the size of the smaller.
#include "collective/plan/butterfly.h"

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

}  // namespace

Plan butterfly(const std::shared_ptr<const Start>& start) {
  const int levels = start->tree().depth();
  const auto round = [=](int rank, int level) {
    const auto node = start->tree().node(rank, level);
    Round result = node ? exchange(*start, rank, *node) : Round{};
    if (level == levels - 1) result.finish(start->whole());
    return result;
  };
  return {start->world_size(), start->count(), levels, start->slots(), round};
}

}  // namespace lockstep::collective
