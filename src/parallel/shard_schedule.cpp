#include "parallel/shard_schedule.h"

#include <algorithm>

#include "collective/plan/shards.h"

namespace lockstep::parallel {
namespace {

void add_node(ShardSchedule& schedule, const collective::Term& node, int slot, int64_t pieces) {
  schedule.slots = std::max(schedule.slots, slot + 1);
  if (node.width() == 1) {
    for (int64_t piece = 0; piece < pieces; ++piece)
      schedule.passes.push_back({.slot = slot, .adds = piece > 0});
    return;
  }
  const int64_t cut = collective::middle(node.begin, node.end);
  add_node(schedule, {node.begin, cut}, slot, pieces);
  add_node(schedule, {cut, node.end}, slot + 1, pieces);
  schedule.passes.back().folds.push_back({slot, slot + 1});
}

}  // namespace

ShardSchedule schedule_of(const collective::Shards& shards, int rank, int64_t pieces) {
  ShardSchedule schedule;
  int slot = 0;
  for (const collective::Term& term : shards.terms_of(rank))
    add_node(schedule, term, slot++, pieces);
  return schedule;
}

}  // namespace lockstep::parallel
