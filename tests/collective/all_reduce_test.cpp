#include "collective/plan/all_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "collective/plan/rank_tree.h"
#include "collective/symbolic.h"
#include "expect_error.h"

namespace lockstep::collective {
namespace {

int rounds_by_formula(Algorithm algorithm, int world, int height) {
  switch (algorithm) {
    case Algorithm::one_to_all:
    case Algorithm::ring:
      return 2 * (world - 1);
    case Algorithm::tree:
      return 2 * height;
    case Algorithm::halving_doubling:
      return height + depth(world);
    case Algorithm::butterfly:
      return height;
    case Algorithm::direct:
      return world > 1 ? 2 : 0;
    case Algorithm::engine:
      break;
  }
  return -1;
}

class AllReduce : public ::testing::TestWithParam<std::string> {
 protected:
  Algorithm algorithm() const { return parse_algorithm(GetParam()); }

  // Runs a plan, expects all that is expected of any, and says whether it added in canonical order.
  bool run(const Shards& shards, int64_t count) const {
    const int world = shards.world_size();
    SCOPED_TRACE(::testing::Message()
                 << shards.count() << " shards on " << world << " ranks, " << count << " elements");
    Expressions expressions(shards.count());
    const Plan plan = all_reduce(algorithm(), shards, count);
    const Symbolic outcome(plan, shards, expressions);
    if (!HasFailure()) expect_complete(outcome, shards, expressions);
    return is_canonical_everywhere(outcome, expressions);
  }
};

TEST_P(AllReduce, AddsEveryRankOnceAndInCanonicalOrderIfItSaysSo) {
  bool canonical = true;
  for (const int world : worlds())
    for (const int64_t count : counts(world)) {
      canonical = run(Shards::even(world, world), count) && canonical;
      if (HasFailure()) return;
    }
  EXPECT_EQ(canonical, is_canonical(algorithm()));
}

TEST_P(AllReduce, AddsEveryShardOnceAndInCanonicalOrderForEveryWorldSize) {
  bool canonical = true;
  std::vector<int> shards = worlds();
  shards.push_back(24);
  for (const int all : shards)
    for (int world = 1; world <= all; ++world)
      for (const int64_t count : {1, world + 3, 200}) {
        canonical = run(Shards::even(all, world), count) && canonical;
        if (HasFailure()) return;
      }
  EXPECT_EQ(canonical, is_canonical(algorithm()));
}

TEST_P(AllReduce, AddsShardsInCanonicalOrderHoweverTheyAreOwned) {
  // Every way to cut nine shards.
  for (unsigned cuts = 0; cuts < 1U << 8; ++cuts) {
    std::vector<int64_t> bounds = {0};
    for (int shard = 1; shard < 9; ++shard)
      if (cuts >> (shard - 1) & 1U) bounds.push_back(shard);
    bounds.push_back(9);
    const bool canonical = run(Shards(bounds), 5);
    EXPECT_TRUE(canonical || !is_canonical(algorithm()));
    if (HasFailure()) return;
  }
}

TEST_P(AllReduce, TakesTheFormulasRounds) {
  for (const int world : worlds())
    EXPECT_EQ(all_reduce(algorithm(), world, 1000).rounds,
              rounds_by_formula(algorithm(), world, depth(world)));
}

TEST_P(AllReduce, TakesARoundMoreExactlyIfARankHasSeveralTerms) {
  for (const int all : {8, 12, 17, 64})
    for (int world = 2; world <= all; ++world) {
      const Shards shards = Shards::even(all, world);
      const bool more = shards.most_terms() > 1 && algorithm() != Algorithm::direct;
      EXPECT_EQ(all_reduce(algorithm(), shards, 1000).rounds,
                rounds_by_formula(algorithm(), world, RankTree(shards).depth()) + (more ? 1 : 0))
          << all << " shards on " << world << " ranks";
    }
}

TEST_P(AllReduce, OfSeveralShardsOnOneRankOnlyFinishes) {
  const Plan plan = all_reduce(algorithm(), Shards::even(8, 1), 10);
  ASSERT_EQ(plan.rounds, 1);
  EXPECT_TRUE(plan.round(0, 0).sends.empty());
  EXPECT_EQ(plan.round(0, 0).finished, (std::vector<Range>{{0, 10}}));
  EXPECT_EQ(all_reduce(algorithm(), 1, 10).rounds, 0);
}

INSTANTIATE_TEST_SUITE_P(, AllReduce, ::testing::ValuesIn(algorithm_names()),
                         [](const auto& param) { return param.param; });

TEST(LeanAllReduce, SendsNoMoreThanTheLowerBound) {
  constexpr int64_t kCount = 100'000;
  for (const Algorithm algorithm :
       {Algorithm::ring, Algorithm::halving_doubling, Algorithm::direct})
    for (const int world : worlds()) {
      const Plan plan = all_reduce(algorithm, world, kCount);
      const double bound = 2.0 * (world - 1) / world * kCount;
      for (int rank = 0; rank < world; ++rank) {
        int64_t sent = 0;
        for (int index = 0; index < plan.rounds; ++index)
          for (const Send& send : plan.round(rank, index).sends) sent += send.range.size();
        EXPECT_NEAR(static_cast<double>(sent), bound, 2.0 * world)
            << algorithm_names()[static_cast<size_t>(algorithm)] << ", rank " << rank << " of "
            << world;
      }
    }
}

TEST(OneToAll, NeedsNoMoreSlotsThanABinaryCounterHasDigits) {
  for (const int world : worlds())
    EXPECT_LE(all_reduce(Algorithm::one_to_all, world, 1).slots, 1 + std::max(1, depth(world)));
}

TEST(AllReduceNames, AreSuggestedWhenMistyped) {
  expect_bad_input([] { parse_algorithm("buterfly"); }, {"did you mean 'butterfly'"});
}

TEST(AllReduceNames, RefuseWorldsAndCountsThatCannotBe) {
  expect_bad_input([] { all_reduce(Algorithm::ring, 0, 1); }, {"0 ranks"});
  expect_bad_input([] { all_reduce(Algorithm::ring, 2, -1); }, {"-1 elements"});
}

}  // namespace
}  // namespace lockstep::collective
