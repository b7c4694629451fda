#include "collective/plan/shards.h"

#include <gtest/gtest.h>

#include "collective/plan/rank_tree.h"
#include "expect_error.h"

namespace lockstep::collective {
namespace {

using Terms = std::vector<Term>;

TEST(Shards, AreOneTermARankWhereRanksOwnWholeNodes) {
  for (const int world : {1, 2, 4, 8})
    for (int rank = 0; rank < world; ++rank)
      EXPECT_EQ(Shards::even(8, world).terms_of(rank),
                (Terms{{rank * 8 / world, (rank + 1) * 8 / world}}));
}

TEST(Shards, AreTheLargestNodesInsideARanksRange) {
  const Shards three = Shards::even(8, 3);
  EXPECT_EQ(three.terms_of(0), (Terms{{0, 2}}));
  EXPECT_EQ(three.terms_of(1), (Terms{{2, 4}, {4, 5}}));
  EXPECT_EQ(three.terms_of(2), (Terms{{5, 6}, {6, 8}}));
  EXPECT_EQ(three.most_terms(), 2);
}

TEST(Shards, AreAtLeastOneARank) {
  expect_bad_input([] { Shards::even(4, 5); }, {"5 workers for 4 shards", "1 to 4"});
  expect_bad_input([] { Shards::even(4, 0); }, {"0 workers"});
  expect_bad_input([] { Shards({0, 2, 2}); }, {"0, 2, 2"});
  expect_bad_input([] { Shards({1, 2}); }, {"1, 2"});
}

TEST(RankTree, OfOneShardARankIsTheCanonicalTree) {
  for (int world = 1; world <= 64; ++world)
    EXPECT_EQ(RankTree(Shards::even(world, world)).depth(), depth(world));
}

TEST(RankTree, MovesAsFewBoundsAsPossible) {
  // Shard 4 goes from rank 1 to rank 2, which owns 5, 6 and 7.
  const RankTree tree(Shards::even(8, 3));
  EXPECT_EQ(tree.bounds(), (std::vector<int64_t>{0, 2, 4, 8}));
  ASSERT_TRUE(tree.node(0, 1));
  EXPECT_EQ(tree.node(0, 1)->middle, 2);
  EXPECT_FALSE(tree.node(2, 0));
}

TEST(RankTree, MakesEveryRankResponsibleForOneNode) {
  for (int shards = 1; shards <= 64; ++shards)
    for (int world = 1; world <= shards; ++world) {
      const RankTree tree(Shards::even(shards, world));
      for (size_t rank = 0; rank < static_cast<size_t>(world); ++rank)
        EXPECT_EQ(largest_nodes(shards, tree.bounds()[rank], tree.bounds()[rank + 1]).size(), 1)
            << shards << " shards, rank " << rank << " of " << world;
    }
}

TEST(RankTree, HasAtMostOneLevelMoreThanNecessary) {
  for (int shards = 1; shards <= 128; ++shards)
    for (int world = 1; world <= shards; ++world)
      EXPECT_LE(RankTree(Shards::even(shards, world)).depth(), depth(world) + 1)
          << shards << " shards, " << world << " ranks";
}

TEST(Start, MovesFewTerms) {
  for (int shards = 1; shards <= 64; ++shards)
    for (int world = 1; world <= shards; ++world) {
      const auto start = std::make_shared<const Start>(Shards::even(shards, world), 1);
      const Plan plan = Start::plan(start);
      for (int rank = 0; rank < world && plan.rounds > 0; ++rank) {
        EXPECT_LE(plan.round(rank, 0).sends.size(), 5) << shards << " on " << world;
        EXPECT_LE(plan.round(rank, 0).receives.size(), 5) << shards << " on " << world;
      }
    }
}

}  // namespace
}  // namespace lockstep::collective
