#include "parallel/shard_schedule.h"

#include <gtest/gtest.h>

#include <map>

#include "collective/plan/shards.h"

namespace lockstep::parallel {
namespace {

using collective::Shards;
using collective::Term;

// What each slot holds, as the shards added into it; a fold must make a node of the tree.
std::vector<Term> carry_out(const ShardSchedule& schedule, int64_t first) {
  std::map<int, Term> slots;
  for (size_t pass = 0; pass < schedule.passes.size(); ++pass) {
    const auto shard = first + static_cast<int64_t>(pass);
    EXPECT_FALSE(slots.contains(schedule.passes[pass].slot)) << "still in use";
    slots[schedule.passes[pass].slot] = {shard, shard + 1};
    for (const auto& [into, from] : schedule.passes[pass].folds) {
      EXPECT_EQ(slots[into].end, slots[from].begin);
      EXPECT_EQ(collective::middle(slots[into].begin, slots[from].end), slots[from].begin);
      slots[into].end = slots[from].end;
      slots.erase(from);
    }
  }
  std::vector<Term> terms;
  for (const auto& [slot, term] : slots) {
    EXPECT_EQ(slot, static_cast<int>(terms.size()));
    terms.push_back(term);
  }
  return terms;
}

TEST(ShardSchedule, LeavesEachTermInItsSlot) {
  for (int64_t count = 1; count <= 16; ++count)
    for (int world = 1; world <= count; ++world) {
      const Shards shards = Shards::even(count, world);
      for (int rank = 0; rank < world; ++rank)
        EXPECT_EQ(carry_out(schedule_of(shards, rank), shards.bounds()[static_cast<size_t>(rank)]),
                  shards.terms_of(rank))
            << "rank " << rank << " of " << world << ", " << count << " shards";
    }
}

TEST(ShardSchedule, AddsPiecesOfAShardInItsSlot) {
  const ShardSchedule whole = schedule_of(Shards::even(6, 2), 1);
  const ShardSchedule cut = schedule_of(Shards::even(6, 2), 1, 3);
  EXPECT_EQ(cut.slots, whole.slots);
  ASSERT_EQ(cut.passes.size(), 3 * whole.passes.size());
  for (size_t i = 0; i < cut.passes.size(); ++i) {
    const ShardSchedule::Pass& of_shard = whole.passes[i / 3];
    EXPECT_EQ(cut.passes[i].slot, of_shard.slot);
    EXPECT_EQ(cut.passes[i].adds, i % 3 > 0);
    EXPECT_EQ(cut.passes[i].folds.size(), i % 3 == 2 ? of_shard.folds.size() : 0);
  }
}

TEST(ShardSchedule, NeedsOneSlotMoreThanTheLogarithm) {
  EXPECT_EQ(schedule_of(Shards::even(8, 1), 0).slots, 4);
  EXPECT_EQ(schedule_of(Shards::even(8, 8), 3).slots, 1);
}

}  // namespace
}  // namespace lockstep::parallel
