#include "collective/explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace lockstep::collective {
namespace {

constexpr Network kNetwork{.latency = 1e-3, .bytes_per_second = 1e6};
constexpr int64_t kElementBytes = 4;

Cost cost(Algorithm algorithm, int world, int64_t count) {
  return cost_of(all_reduce(algorithm, world, count), kElementBytes, kNetwork);
}

TEST(Cost, EqualsTheClosedForms) {
  constexpr int64_t kCount = 64'000;
  const double size = static_cast<double>(kCount * kElementBytes) / kNetwork.bytes_per_second;
  const double latency = kNetwork.latency;
  for (const int world : {2, 4, 8, 16, 64}) {
    const double n = world;
    const double levels = std::log2(n);
    EXPECT_NEAR(cost(Algorithm::one_to_all, world, kCount).seconds, 2 * (n - 1) * (latency + size),
                1e-9);
    EXPECT_NEAR(cost(Algorithm::tree, world, kCount).seconds, 2 * levels * (latency + size), 1e-9);
    EXPECT_NEAR(cost(Algorithm::butterfly, world, kCount).seconds, levels * (latency + size), 1e-9);
    EXPECT_NEAR(cost(Algorithm::ring, world, kCount).seconds, 2 * (n - 1) * (latency + size / n),
                1e-9);
    EXPECT_NEAR(cost(Algorithm::halving_doubling, world, kCount).seconds,
                2 * levels * latency + 2 * (n - 1) / n * size, 1e-9);
    EXPECT_NEAR(cost(Algorithm::direct, world, kCount).seconds,
                2 * latency + 2 * (n - 1) / n * size, 1e-9);
  }
}

TEST(Cost, AgreesWithWhatIsTaught) {
  for (const int world : {2, 4, 8, 16}) {
    EXPECT_EQ(2 * cost(Algorithm::butterfly, world, 1000).rounds,
              cost(Algorithm::tree, world, 1000).rounds);
    EXPECT_EQ(cost(Algorithm::one_to_all, world, 1000).rounds,
              cost(Algorithm::ring, world, 1000).rounds);
    EXPECT_GE(cost(Algorithm::one_to_all, world, 1'000'000).seconds,
              cost(Algorithm::ring, world, 1'000'000).seconds);
  }
}

TEST(Cost, OfOneRankIsNothing) {
  for (const std::string& name : algorithm_names())
    EXPECT_EQ(cost(parse_algorithm(name), 1, 1000).seconds, 0) << name;
}

TEST(Explain, ListsEveryMessageOnce) {
  const Plan plan = all_reduce(Algorithm::tree, 4, 8);
  EXPECT_EQ(list_rounds(plan),
            "round 1     1 -> 0   elements 0-7, added\n"
            "round 1     3 -> 2   elements 0-7, added\n"
            "round 2     2 -> 0   elements 0-7, added\n"
            "round 3     0 -> 2   elements 0-7, taken over\n"
            "round 4     0 -> 1   elements 0-7, taken over\n"
            "round 4     2 -> 3   elements 0-7, taken over\n");
}

TEST(Explain, DrawsAnArrowPerMessage) {
  const std::string svg = draw_rounds(all_reduce(Algorithm::ring, 4, 8), "ring");
  size_t arrows = 0;
  for (size_t at = svg.find("marker-end"); at != std::string::npos;
       at = svg.find("marker-end", at + 1))
    ++arrows;
  EXPECT_EQ(arrows, 24);
}

}  // namespace
}  // namespace lockstep::collective
