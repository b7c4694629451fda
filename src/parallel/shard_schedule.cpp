#include "parallel/shard_schedule.h"

#include <algorithm>

#include "collective/plan/shards.h"

namespace lockstep::parallel {
namespace {

void add_node(ShardSchedule& schedule, int64_t begin, int64_t end, int slot) {
  schedule.slots = std::max(schedule.slots, slot + 1);
  if (end - begin == 1) {
    schedule.passes.push_back({slot, {}});
    return;
  }
  const int64_t middle = collective::middle(begin, end);
  add_node(schedule, begin, middle, slot);
  add_node(schedule, middle, end, slot + 1);
  schedule.passes.back().folds.push_back({slot, slot + 1});
}

}  // namespace

ShardSchedule schedule_of(const collective::Shards& shards, int rank) {
  ShardSchedule schedule;
  int slot = 0;
  for (const collective::Term& term : shards.terms_of(rank))
    add_node(schedule, term.begin, term.end, slot++);
  return schedule;
}

}  // namespace lockstep::parallel
