#include "sim/links.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep::sim {
namespace {

std::vector<int> crossed(const Path& path) {
  std::vector<int> links;
  for (const LinkRange run : path.runs)
    for (int link = run.begin; link < run.end; ++link) links.push_back(link);
  return links;
}

TEST(Links, OfASwitchAreTwoForEachRank) {
  const Links links({.latency = 3}, 5);
  EXPECT_EQ(links.size(), 10);
  EXPECT_EQ(crossed(links.path(1, 4)), (std::vector<int>{1, 5 + 4}));
  EXPECT_EQ(links.path(1, 4).latency, 3);
}

TEST(Links, ThatCarryOneDirectionAtATimeAreTheSameBothWays) {
  for (const Topology topology : {Topology::single_switch, Topology::ring}) {
    const Links links({.topology = topology, .duplex = Duplex::half}, 5);
    EXPECT_EQ(links.size(), 5);
    const auto there = crossed(links.path(1, 3));
    const auto back = crossed(links.path(3, 1));
    EXPECT_EQ(std::set<int>(there.begin(), there.end()), std::set<int>(back.begin(), back.end()));
  }
}

TEST(Links, OfARingLeadTheShorterWay) {
  const Links links({.topology = Topology::ring, .latency = 3}, 6);
  EXPECT_EQ(crossed(links.path(1, 3)), (std::vector<int>{1, 2}));
  EXPECT_EQ(crossed(links.path(3, 1)), (std::vector<int>{6 + 1, 6 + 2}));
  EXPECT_EQ(crossed(links.path(5, 1)), (std::vector<int>{5, 0}));
  EXPECT_EQ(crossed(links.path(1, 5)), (std::vector<int>{6 + 5, 6 + 0}));
  EXPECT_EQ(crossed(links.path(1, 4)), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(crossed(links.path(4, 1)), (std::vector<int>{6 + 1, 6 + 2, 6 + 3}));
  EXPECT_EQ(links.path(4, 1).latency, 9);
}

TEST(Links, OfHostsAreSharedByTheirWorkers) {
  const Links links({.topology = Topology::two_level,
                     .latency = 3,
                     .bytes_per_second = 10,
                     .workers_per_host = 2,
                     .host_latency = 1,
                     .host_bytes_per_second = 100},
                    5);
  EXPECT_EQ(links.size(), 2 * 3 + 2 * 5);
  EXPECT_EQ(crossed(links.path(0, 2)), crossed(links.path(1, 3)));
  EXPECT_EQ(links.path(0, 2).latency, 3);
  EXPECT_EQ(links.path(0, 1).latency, 1);
  EXPECT_EQ(links.path(0, 1).bytes_per_second, 100);
  for (const int link : crossed(links.path(0, 1))) EXPECT_EQ(links.bytes_per_second(link), 100);
  for (const int link : crossed(links.path(4, 1))) EXPECT_EQ(links.bytes_per_second(link), 10);
}

}  // namespace
}  // namespace lockstep::sim
