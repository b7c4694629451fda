#include "collective/plan/two_level.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "collective/symbolic.h"
#include "expect_error.h"

namespace lockstep::collective {
namespace {

// {3, 1}: ranks 0, 1 and 2 on one host, rank 3 on another.
std::vector<int> hosts_of_sizes(const std::vector<int>& sizes) {
  std::vector<int> host_of_rank;
  for (size_t host = 0; host < sizes.size(); ++host)
    host_of_rank.insert(host_of_rank.end(), static_cast<size_t>(sizes[host]),
                        static_cast<int>(host));
  return host_of_rank;
}

const std::vector<std::vector<int>> kHosts = {{1},    {4},    {3, 1},    {1, 3},    {5, 3},
                                              {4, 4}, {1, 1}, {2, 3, 2}, {1, 5, 1}, {2, 2, 2, 2},
                                              {7, 1}, {1, 7}, {1, 2, 4}, {3, 3, 3}, {8, 8}};

class TwoLevel : public ::testing::TestWithParam<std::string> {
 protected:
  Algorithm algorithm() const { return parse_algorithm(GetParam()); }
};

TEST_P(TwoLevel, AddsEveryShardOnceInCanonicalOrderForHostsOfAnySize) {
  for (const auto& sizes : kHosts) {
    const std::vector<int> hosts = hosts_of_sizes(sizes);
    const int world = static_cast<int>(hosts.size());
    for (const int shards : {world, world + 1, 2 * world, 3 * world + 1, 24, 64})
      for (const int64_t count : {0, 1, world, 100}) {
        SCOPED_TRACE(::testing::Message() << ::testing::PrintToString(sizes) << ", " << shards
                                          << " shards, " << count << " elements");
        const Shards owned = Shards::even(shards, world);
        const Plan plan = two_level(hosts, algorithm(), owned, count);
        Expressions expressions(shards);
        const Symbolic outcome(plan, owned, expressions);
        if (HasFailure()) return;
        expect_complete(outcome, owned, expressions);
        ASSERT_TRUE(!algorithm().is_canonical() || is_canonical_everywhere(outcome, expressions));
      }
  }
}

TEST_P(TwoLevel, SendsBetweenHostsOnlyFromLeaderToLeader) {
  const std::vector<int> hosts = hosts_of_sizes({3, 1, 4});
  const std::vector<int> leaders = {0, 3, 4};
  const auto is_leader = [&](int rank) {
    return std::find(leaders.begin(), leaders.end(), rank) != leaders.end();
  };
  const Plan plan = two_level(hosts, algorithm(), Shards::even(8, 8), 100);
  for (int index = 0; index < plan.rounds; ++index)
    for (int rank = 0; rank < plan.world; ++rank)
      for (const Send& send : plan.round(rank, index).sends) {
        if (hosts[send.peer] == hosts[rank]) continue;
        EXPECT_TRUE(is_leader(rank) && is_leader(send.peer)) << rank << " to " << send.peer;
      }
}

TEST_P(TwoLevel, TakesThreeRoundsMoreThanTheLeaders) {
  const Plan plan = two_level(hosts_of_sizes({4, 4}), algorithm(), Shards::even(8, 8), 100);
  EXPECT_EQ(plan.rounds, 3 + all_reduce(algorithm(), 2, 100).rounds);
}

INSTANTIATE_TEST_SUITE_P(, TwoLevel, ::testing::ValuesIn(planned_names()),
                         [](const auto& param) { return param.param; });

TEST(TwoLevelHosts, MustHaveConsecutiveRanks) {
  const Shards shards = Shards::even(3, 3);
  expect_bad_input([&] { two_level({0, 1, 0}, parse_algorithm("tree"), shards, 1); },
                   {"rank 2 is on the host of rank 0", "rank 1", "consecutive"});
  expect_bad_input([&] { two_level({0, 1}, parse_algorithm("tree"), shards, 1); }, {"2 ranks"});
}

}  // namespace
}  // namespace lockstep::collective
