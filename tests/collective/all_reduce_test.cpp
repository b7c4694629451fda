#include "collective/plan/all_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "collective/plan/rank_tree.h"
#include "collective/symbolic.h"
#include "expect_error.h"

namespace lockstep::collective {
namespace {

// Rounds among `world` ranks whose rank tree has `height` levels.
struct Rounds {
  std::string algorithm;
  std::function<int(int world, int height)> of;
};

const std::vector<Rounds> kRounds = {
    {"butterfly", [](int, int height) { return height; }},
    {"direct", [](int world, int) { return world > 1 ? 2 : 0; }},
    {"halving_doubling", [](int world, int height) { return height + depth(world); }},
    {"one_to_all", [](int world, int) { return 2 * (world - 1); }},
    {"ring", [](int world, int) { return 2 * (world - 1); }},
    {"tree", [](int, int height) { return 2 * height; }},
};

class AllReduce : public ::testing::TestWithParam<std::string> {
 protected:
  Algorithm algorithm() const { return parse_algorithm(GetParam()); }

  // Runs a plan, checks what holds for all algorithms, and returns whether it added in canonical
  // order.
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
  EXPECT_EQ(canonical, algorithm().is_canonical());
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
  EXPECT_EQ(canonical, algorithm().is_canonical());
}

TEST_P(AllReduce, AddsShardsInCanonicalOrderHoweverTheyAreOwned) {
  // Every way to cut nine shards.
  for (unsigned cuts = 0; cuts < 1U << 8; ++cuts) {
    std::vector<int64_t> bounds = {0};
    for (int shard = 1; shard < 9; ++shard)
      if (cuts >> (shard - 1) & 1U) bounds.push_back(shard);
    bounds.push_back(9);
    const bool canonical = run(Shards(bounds), 5);
    EXPECT_TRUE(canonical || !algorithm().is_canonical());
    if (HasFailure()) return;
  }
}

TEST_P(AllReduce, OfSeveralShardsOnOneRankOnlyFinishes) {
  const Plan plan = all_reduce(algorithm(), Shards::even(8, 1), 10);
  ASSERT_EQ(plan.rounds, 1);
  EXPECT_TRUE(plan.round(0, 0).sends.empty());
  EXPECT_EQ(plan.round(0, 0).finished, (std::vector<Range>{{0, 10}}));
  EXPECT_EQ(all_reduce(algorithm(), 1, 10).rounds, 0);
}

INSTANTIATE_TEST_SUITE_P(, AllReduce, ::testing::ValuesIn(planned_names()),
                         [](const auto& param) { return param.param; });

TEST(AllReduceRounds, AreThoseOfTheFormula) {
  for (const auto& [name, rounds] : kRounds)
    for (const int world : worlds())
      EXPECT_EQ(all_reduce(parse_algorithm(name), world, 1000).rounds, rounds(world, depth(world)))
          << name << " on " << world << " ranks";
}

TEST(AllReduceRounds, AreOneMoreIfARankHasSeveralTerms) {
  for (const auto& [name, rounds] : kRounds)
    for (const int all : {8, 12, 17, 64})
      for (int world = 2; world <= all; ++world) {
        const Shards shards = Shards::even(all, world);
        const bool more = shards.most_terms() > 1 && name != "direct";
        EXPECT_EQ(all_reduce(parse_algorithm(name), shards, 1000).rounds,
                  rounds(world, RankTree(shards).depth()) + (more ? 1 : 0))
            << name << ", " << all << " shards on " << world << " ranks";
      }
}

TEST(LeanAllReduce, SendsNoMoreThanTheLowerBound) {
  constexpr int64_t kCount = 100'000;
  for (const char* name : {"direct", "halving_doubling", "ring"})
    for (const int world : worlds()) {
      const Plan plan = all_reduce(parse_algorithm(name), world, kCount);
      const double bound = 2.0 * (world - 1) / world * kCount;
      for (int rank = 0; rank < world; ++rank) {
        int64_t sent = 0;
        for (int index = 0; index < plan.rounds; ++index)
          for (const Send& send : plan.round(rank, index).sends) sent += send.range.size();
        EXPECT_NEAR(static_cast<double>(sent), bound, 2.0 * world)
            << name << ", rank " << rank << " of " << world;
      }
    }
}

TEST(OneToAll, NeedsNoMoreSlotsThanABinaryCounterHasDigits) {
  for (const int world : worlds())
    EXPECT_LE(all_reduce(parse_algorithm("one_to_all"), world, 1).slots,
              1 + std::max(1, depth(world)));
}

TEST(Algorithms, AreFoundByNameAndSuggestedWhenMistyped) {
  for (const auto& row : algorithms()) EXPECT_EQ(parse_algorithm(row->name).name(), row->name);
  expect_bad_input([] { parse_algorithm("buterfly"); },
                   {"no such algorithm", "did you mean 'butterfly'", "engine"});
}

TEST(Algorithms, ArePlansExceptForTheEngine) {
  EXPECT_EQ(planned_algorithms().size() + 1, algorithms().names().size());
  const Algorithm engine = parse_algorithm("engine");
  EXPECT_TRUE(engine.is_engine());
  EXPECT_FALSE(engine.is_canonical());
  expect_bad_input([&] { all_reduce(engine, 2, 1); }, {"algorithm engine", "has no plan"});
}

// The table of docs/algorithms.md has the table's texts.
TEST(Algorithms, AreDocumented) {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / "../../docs/algorithms.md");
  const std::string docs{std::istreambuf_iterator<char>(file), {}};
  for (const auto& [name, rounds] : kRounds) {
    const Algorithm algorithm = parse_algorithm(name);
    const auto line = fmt::format("| `{}` | {} |", name, algorithm->rounds);
    EXPECT_NE(docs.find(line), std::string::npos) << line;
    EXPECT_NE(docs.find(algorithm->about), std::string::npos) << algorithm->about;
    EXPECT_NE(docs.find(fmt::format("| `{}` | {} |", name, algorithm->cost)), std::string::npos)
        << algorithm->cost;
  }
}

TEST(Algorithms, RefuseWorldSizesAndCountsOutOfRange) {
  expect_bad_input([] { all_reduce(parse_algorithm("ring"), 0, 1); }, {"0 ranks"});
  expect_bad_input([] { all_reduce(parse_algorithm("ring"), 2, -1); }, {"-1 elements"});
}

}  // namespace
}  // namespace lockstep::collective
