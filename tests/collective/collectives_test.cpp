#include "collective/plan/collectives.h"

#include <gtest/gtest.h>

#include <set>

#include "base/range.h"
#include "collective/symbolic.h"
#include "expect_error.h"

namespace lockstep::collective {
namespace {

Request request(Collective collective, int world, int64_t count, int root = 0) {
  return {
      .collective = collective, .shards = Shards::even(world, world), .count = count, .root = root};
}

// Runs a plan in which rank r starts with r everywhere.
Symbolic run(const Plan& plan, Expressions& expressions) {
  return Symbolic(plan, Shards::even(plan.world, plan.world), expressions);
}

std::vector<int64_t> part(const std::vector<int64_t>& bucket, Range range) {
  return {bucket.begin() + range.begin, bucket.begin() + range.end};
}

void expect_all(const std::vector<int64_t>& values, int64_t expected) {
  for (const int64_t value : values) ASSERT_EQ(value, expected);
}

std::set<int> roots(int world) {
  return {0, world / 2, world - 1};
}

// Calls `test(world, count)` for every world size and count.
template <typename Test>
void for_every_size(const Test& test) {
  for (const int world : worlds())
    for (const int64_t count : counts(world)) {
      SCOPED_TRACE(::testing::Message() << world << " ranks, " << count << " elements");
      test(world, count);
      if (::testing::Test::HasFailure()) return;
    }
}

TEST(Broadcast, GivesEveryRankTheRootsBucket) {
  for (const BroadcastBy by : {BroadcastBy::tree, BroadcastBy::slices})
    for_every_size([&](int world, int64_t count) {
      for (const int root : roots(world)) {
        Request asked = request(Collective::broadcast, world, count, root);
        asked.broadcast_by = by;
        const Plan plan = plan_of(asked);
        Expressions expressions(world);
        const Symbolic outcome = run(plan, expressions);
        for (int rank = 0; rank < world; ++rank) expect_all(outcome.bucket(rank), root);
        const bool in_slices = by == BroadcastBy::slices && world > 1;
        EXPECT_EQ(plan.rounds, depth(world) + (in_slices ? 1 : 0));
      }
    });
}

TEST(Reduce, GivesTheRootTheCanonicalSum) {
  for_every_size([](int world, int64_t count) {
    for (const int root : roots(world)) {
      const Plan plan = plan_of(request(Collective::reduce, world, count, root));
      Expressions expressions(world);
      expect_all(run(plan, expressions).bucket(root), expressions.canonical_result());
      EXPECT_EQ(plan.rounds, depth(world));
    }
  });
}

TEST(Reduce, GivesTheSameSumForEveryWorldSize) {
  for (const int all : {8, 13})
    for (int world = 1; world <= all; ++world)
      for (int root = 0; root < world; ++root) {
        const Shards shards = Shards::even(all, world);
        const Plan plan = reduce(shards, 5, root);
        Expressions expressions(all);
        expect_all(Symbolic(plan, shards, expressions).bucket(root),
                   expressions.canonical_result());
      }
}

TEST(AllGather, GivesEveryRankEverySlice) {
  for_every_size([](int world, int64_t count) {
    const Plan plan = plan_of(request(Collective::all_gather, world, count));
    Expressions expressions(world);
    const Symbolic outcome = run(plan, expressions);
    for (int rank = 0; rank < world; ++rank)
      for (int owner = 0; owner < world; ++owner)
        expect_all(part(outcome.bucket(rank), slice(count, world, owner)), owner);
    EXPECT_EQ(plan.rounds, depth(world));
  });
}

TEST(AllGather, SendsEverySliceButOneAsTwoMessagesARoundAtMost) {
  for (const int world : worlds()) {
    constexpr int64_t kCount = 64'000;
    const Plan plan = plan_of(request(Collective::all_gather, world, kCount));
    int64_t sent = 0;
    for (int index = 0; index < plan.rounds; ++index) {
      const Round round = plan.round(world - 1, index);
      EXPECT_LE(round.sends.size(), 2);
      for (const Send& send : round.sends) sent += send.range.size();
    }
    EXPECT_NEAR(static_cast<double>(sent), static_cast<double>(kCount) * (world - 1) / world,
                world);
  }
}

TEST(ReduceScatter, GivesEveryRankTheCanonicalSumOfItsSlice) {
  for_every_size([](int world, int64_t count) {
    const Plan plan = plan_of(request(Collective::reduce_scatter, world, count));
    Expressions expressions(world);
    const Symbolic outcome = run(plan, expressions);
    for (int rank = 0; rank < world; ++rank)
      expect_all(part(outcome.bucket(rank), slice(count, world, rank)),
                 expressions.canonical_result());
  });
}

TEST(ReduceScatter, GivesTheSameSumsForEveryWorldSize) {
  for (int world = 1; world <= 13; ++world) {
    const Shards shards = Shards::even(13, world);
    const Plan plan =
        plan_of({.collective = Collective::reduce_scatter, .shards = shards, .count = 20});
    Expressions expressions(13);
    const Symbolic outcome(plan, shards, expressions);
    for (int rank = 0; rank < world; ++rank)
      expect_all(part(outcome.bucket(rank), slice(20, world, rank)),
                 expressions.canonical_result());
  }
}

TEST(Gather, GivesTheRootEverySlice) {
  for_every_size([](int world, int64_t count) {
    for (const int root : roots(world)) {
      const Plan plan = plan_of(request(Collective::gather, world, count, root));
      Expressions expressions(world);
      const Symbolic outcome = run(plan, expressions);
      for (int owner = 0; owner < world; ++owner)
        expect_all(part(outcome.bucket(root), slice(count, world, owner)), owner);
    }
  });
}

TEST(Scatter, GivesEveryRankItsSliceAndLeavesTheRest) {
  for_every_size([](int world, int64_t count) {
    for (const int root : roots(world)) {
      const Plan plan = plan_of(request(Collective::scatter, world, count, root));
      Expressions expressions(world);
      const Symbolic outcome = run(plan, expressions);
      for (int rank = 0; rank < world; ++rank)
        for (int owner = 0; owner < world; ++owner)
          expect_all(part(outcome.bucket(rank), slice(count, world, owner)),
                     owner == rank ? root : rank);
    }
  });
}

// Who a rank knows to have arrived: itself, and whoever was known to those it hears from.
std::vector<std::set<int>> known_after(const Plan& plan) {
  std::vector<std::set<int>> known(static_cast<size_t>(plan.world));
  for (int rank = 0; rank < plan.world; ++rank) known[static_cast<size_t>(rank)] = {rank};
  for (int index = 0; index < plan.rounds; ++index) {
    const auto before = known;
    for (int rank = 0; rank < plan.world; ++rank)
      for (const Receive& receive : plan.round(rank, index).receives) {
        const auto& heard = before[static_cast<size_t>(receive.peer)];
        known[static_cast<size_t>(rank)].insert(heard.begin(), heard.end());
      }
  }
  return known;
}

TEST(Barrier, LetsNoRankLeaveBeforeAllHaveEntered) {
  for (const int world : worlds()) {
    const Plan plan = plan_of(request(Collective::barrier, world, 0));
    Expressions expressions(world);
    const Symbolic outcome = run(plan, expressions);
    for (int rank = 0; rank < world; ++rank) expect_all(outcome.bucket(rank), rank);
    for (const auto& known : known_after(plan)) EXPECT_EQ(known.size(), world);
    EXPECT_EQ(plan.rounds, depth(world));
  }
}

TEST(SendReceive, MovesOneBucketAndNothingElse) {
  for_every_size([](int world, int64_t count) {
    for (const int from : roots(world))
      for (const int to : roots(world)) {
        Request asked = request(Collective::send_receive, world, count, from);
        asked.peer = to;
        Expressions expressions(world);
        const Plan plan = plan_of(asked);
        const Symbolic outcome = run(plan, expressions);
        for (int rank = 0; rank < world; ++rank)
          expect_all(outcome.bucket(rank), rank == to ? from : rank);
      }
  });
}

TEST(AllToAll, GivesEveryRankItsSliceOfEveryOther) {
  for (const int world : worlds()) {
    const int64_t count = 3 * world;
    const Plan plan = plan_of(request(Collective::all_to_all, world, count));
    Expressions expressions(world);
    const Symbolic outcome(plan, Shards::even(world, world), expressions,
                           Symbolic::Arrive::anywhere);
    for (int rank = 0; rank < world; ++rank) {
      expect_all(outcome.bucket(rank), rank);
      for (int owner = 0; owner < world; ++owner)
        expect_all(part(outcome.slot(rank, 1), slice(count, world, owner)),
                   owner == rank ? kNothing : owner);
    }
    EXPECT_EQ(plan.rounds, world > 1 ? 1 : 0);
  }
}

TEST(AllToAll, RefusesSlicesOfDifferentSizes) {
  expect_bad_input([] { plan_of(request(Collective::all_to_all, 4, 10)); },
                   {"all_to_all of 10 elements", "multiple of 4 ranks"});
}

TEST(Request, IsReadByName) {
  for (size_t i = 0; i < collective_names().size(); ++i)
    EXPECT_EQ(parse_collective(collective_names()[i]), static_cast<Collective>(i));
  expect_bad_input([] { parse_collective("brodcast"); }, {"did you mean 'broadcast'"});
}

TEST(Request, RefusesRanksAndCountsOutOfRange) {
  for (const Collective collective :
       {Collective::broadcast, Collective::reduce, Collective::gather, Collective::scatter})
    for (const int root : {-1, 4})
      expect_bad_input([&] { plan_of(request(collective, 4, 10, root)); }, {"root", "0 to 3"});
  expect_bad_input([] { plan_of(request(Collective::send_receive, 4, 10, 7)); }, {"rank 7"});
  expect_bad_input([] { plan_of(request(Collective::gather, 4, -1)); }, {"gather of -1 elements"});
}

}  // namespace
}  // namespace lockstep::collective
