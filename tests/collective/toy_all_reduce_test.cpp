// An all-reduce algorithm that only this file knows, to show that one file is all it takes: adding
// its row to the table is enough for plans, `explain`, the simulator and communicators to find it
// by its name. The tests that take every algorithm in turn take this one too.
//
// Every rank sends all its terms to every other rank and folds all terms along the canonical tree:
// one round, (n-1) buckets sent by each rank.
#include <gtest/gtest.h>

#include "collective/plan/all_reduce.h"
#include "collective/plan/explain.h"
#include "communicators.h"
#include "expect_error.h"
#include "random_shards.h"
#include "sim/predict.h"
#include "symbolic.h"

namespace lockstep::collective {
namespace {

constexpr const char* kName = "toy";

Plan toy(const Shards& shards, int64_t count) {
  const int world = shards.world_size();
  const RankRange all{0, world};
  const Range whole{0, count};
  const auto round = [=](int rank, int) {
    Round result;
    auto landing = static_cast<Slot>(shards.terms_of(rank).size());
    for (int peer = 0; peer < world; ++peer) {
      if (peer == rank) continue;
      for (size_t i = 0; i < shards.terms_of(rank).size(); ++i)
        result.send(peer, static_cast<Slot>(i), whole);
      for (size_t i = 0; i < shards.terms_of(peer).size(); ++i)
        result.receive(peer, landing++, whole);
    }
    fold_terms(result, place_terms(shards, all, rank), whole);
    result.finish(whole);
    return result;
  };
  return {world, count, 1, static_cast<int>(place_terms(shards, all, 0).size()), round};
}

[[maybe_unused]] const bool toy_added =
    algorithms().add({.name = kName,
                      .about = "every rank sends its bucket to all others, and all add",
                      .rounds = "1",
                      .cost = "latency + (n-1) size/bandwidth",
                      .canonical = true,
                      .make = toy});

TEST(ToyAllReduce, AddsEveryShardOnceInCanonicalOrder) {
  for (const int world : {1, 2, 3, 5, 8}) {
    const Shards shards = Shards::even(8, world);
    Expressions expressions(8);
    const Plan plan = all_reduce(parse_algorithm(kName), shards, 10);
    const Symbolic outcome(plan, shards, expressions);
    expect_complete(outcome, shards, expressions);
    EXPECT_TRUE(is_canonical_everywhere(outcome, expressions));
  }
}

TEST(ToyAllReduce, IsNamedInMessages) {
  const std::string message = message_of<BadInput>([] { parse_algorithm("tory"); });
  EXPECT_TRUE(has(message, "did you mean 'toy'")) << message;
  EXPECT_TRUE(has(algorithms().help(), "every rank sends its bucket to all others"));
}

TEST(ToyAllReduce, IsExplained) {
  const Plan plan = all_reduce(parse_algorithm(kName), 2, 8);
  EXPECT_EQ(list_rounds(plan),
            "round 1     1 -> 0   elements 0-7, added\n"
            "round 1     0 -> 1   elements 0-7, added\n");
  EXPECT_TRUE(has(sketch_rounds(plan), "rank 1  ->0 <+0\n"));
}

TEST(ToyAllReduce, IsSimulated) {
  const sim::Network network{.latency = 1, .bytes_per_second = 1e9};
  const auto predictions = sim::predict(4, 4, network);
  EXPECT_EQ(predictions[0].algorithm.name(), kName);  // latency is all, and it has one round
  EXPECT_NEAR(predictions[0].seconds, 1, 1e-6);
}

class ToyAllReduceOver : public Communicators {};

TEST_P(ToyAllReduceOver, RunsByItsName) {
  const Shards shards = Shards::even(8, 3);
  in_group(3, always(parse_algorithm(kName)), [&](Communicator& group) {
    EXPECT_TRUE(same_bits(sum_of_shards(group, shards, 1000), canonical_sum(0, 8, 1000)));
  });
}

TEST_P(ToyAllReduceOver, IsNamedWhereRanksDisagree) {
  const auto errors = errors_of_group(2, always(parse_algorithm(kName)), [](Communicator& group) {
    Floats values(group.rank() == 0 ? 1000 : 1001);
    group.all_reduce(buffer_of(values));
  });
  for (const std::string& error : errors)
    EXPECT_TRUE(has(error, "all_reduce number 1 (toy) of 1000 f32")) << error;
}

INSTANTIATE_TEST_SUITE_P(, ToyAllReduceOver, every_carrier(), name_of_carrier);

}  // namespace
}  // namespace lockstep::collective
