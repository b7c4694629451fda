// All-reduce plans against the closed forms of their costs. `size` is what a bucket takes on a
// link, in seconds.
#include "collective/plan/all_reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "expect_error.h"
#include "sim/simulate.h"

namespace lockstep::sim {
namespace {

using collective::Algorithm;
using collective::parse_algorithm;

constexpr int64_t kElementBytes = 4;
constexpr int64_t kCount = 1 << 16;
constexpr double kLatency = 1e-3;
constexpr double kSpeed = 1e6;
constexpr double kSize = kCount * kElementBytes / kSpeed;
constexpr Network kSwitch{.latency = kLatency, .bytes_per_second = kSpeed};

double seconds(Algorithm algorithm, int world, const Network& network, int64_t count = kCount) {
  return simulate(collective::all_reduce(algorithm, world, count), kElementBytes, network).seconds;
}

void expect_seconds(double expected, Algorithm algorithm, int world, const Network& network,
                    int64_t count = kCount) {
  EXPECT_NEAR(seconds(algorithm, world, network, count) / expected, 1, 1e-9)
      << algorithm.name() << " on " << world << " ranks";
}

Network with(const std::function<void(Network&)>& change) {
  Network network = kSwitch;
  change(network);
  return network;
}

void for_each_algorithm(const std::function<void(Algorithm)>& test) {
  for (const Algorithm algorithm : collective::planned_algorithms()) {
    SCOPED_TRACE(algorithm.name());
    test(algorithm);
  }
}

TEST(SimulatedAllReduce, EqualsTheClosedFormsOnASwitch) {
  for (const int world : {2, 4, 8, 16, 64}) {
    const double n = world;
    const double levels = std::log2(n);
    expect_seconds(2 * (n - 1) * (kLatency + kSize), parse_algorithm("one_to_all"), world, kSwitch);
    expect_seconds(2 * levels * (kLatency + kSize), parse_algorithm("tree"), world, kSwitch);
    expect_seconds(levels * (kLatency + kSize), parse_algorithm("butterfly"), world, kSwitch);
    expect_seconds(2 * (n - 1) * (kLatency + kSize / n), parse_algorithm("ring"), world, kSwitch);
    expect_seconds(2 * levels * kLatency + 2 * (n - 1) / n * kSize,
                   parse_algorithm("halving_doubling"), world, kSwitch);
    expect_seconds(2 * kLatency + 2 * (n - 1) / n * kSize, parse_algorithm("direct"), world,
                   kSwitch);
  }
}

TEST(SimulatedAllReduce, EqualsTheClosedFormsIfTheWorldSizeIsNotAPowerOfTwo) {
  for (const int world : {3, 5, 10, 20}) {
    const double n = world;
    expect_seconds(2 * (n - 1) * (kLatency + kSize), parse_algorithm("one_to_all"), world, kSwitch,
                   kCount);
    expect_seconds(2 * std::ceil(std::log2(n)) * (kLatency + kSize), parse_algorithm("tree"), world,
                   kSwitch);
    const int64_t count = 1000 * world;
    const double size = static_cast<double>(count * kElementBytes) / kSpeed;
    expect_seconds(2 * (n - 1) * (kLatency + size / n), parse_algorithm("ring"), world, kSwitch,
                   count);
    expect_seconds(2 * kLatency + 2 * (n - 1) / n * size, parse_algorithm("direct"), world, kSwitch,
                   count);
  }
}

TEST(SimulatedAllReduce, PaysAnOverheadAtBothEndsOfAMessage) {
  constexpr double kOverhead = 1e-4;
  const Network network = with([](Network& n) { n.overhead = kOverhead; });
  const double message = kLatency + 2 * kOverhead;
  expect_seconds(14 * (message + kSize / 8), parse_algorithm("ring"), 8, network);
  expect_seconds(6 * (message + kSize), parse_algorithm("tree"), 8, network);
  expect_seconds(3 * (message + kSize), parse_algorithm("butterfly"), 8, network);
  // Rank 0 pays for each message once, the others at the same time, but for the first and the last.
  expect_seconds(14 * (kLatency + kSize) + (14 + 2) * kOverhead, parse_algorithm("one_to_all"), 8,
                 network);
}

TEST(SimulatedAllReduce, OverlapsOverheadsOfManyMessagesWithTheirTransfer) {
  const Network slow_link = with([](Network& n) { n.overhead = 1e-4; });
  expect_seconds(2 * (kLatency + 2e-4 + 7 * kSize / 8), parse_algorithm("direct"), 8, slow_link);
  const Network slow_processor = with([](Network& n) {
    n.overhead = 0.1;
    n.bytes_per_second = 1e9;
  });
  // Seven sends, then seven receives, and nothing else counts.
  EXPECT_NEAR(seconds(parse_algorithm("direct"), 8, slow_processor), 2 * 14 * 0.1, 0.01);
}

TEST(SimulatedAllReduce, PaysForWhatItFolds) {
  constexpr double kFold = kSize / 10;  // a whole bucket, ten times as fast as a link
  const Network network = with([](Network& n) { n.reduce_bytes_per_second = 10 * kSpeed; });
  expect_seconds(14 * (kLatency + kSize / 8) + 7 * kFold / 8, parse_algorithm("ring"), 8, network);
  expect_seconds(6 * (kLatency + kSize) + 3 * kFold, parse_algorithm("tree"), 8, network);
  expect_seconds(3 * (kLatency + kSize + kFold), parse_algorithm("butterfly"), 8, network);
  expect_seconds(6 * kLatency + 7.0 / 8 * (2 * kSize + kFold), parse_algorithm("halving_doubling"),
                 8, network);
  expect_seconds(2 * kLatency + 7.0 / 8 * (2 * kSize + kFold), parse_algorithm("direct"), 8,
                 network);
  expect_seconds(14 * (kLatency + kSize) + 7 * kFold, parse_algorithm("one_to_all"), 8, network);
}

TEST(SimulatedAllReduce, TakesTwiceTheTransferOnHalfDuplexLinksWhereRanksExchange) {
  const Network half = with([](Network& n) { n.duplex = Duplex::half; });
  expect_seconds(14 * (kLatency + 2 * kSize / 8), parse_algorithm("ring"), 8, half);
  expect_seconds(3 * (kLatency + 2 * kSize), parse_algorithm("butterfly"), 8, half);
  expect_seconds(6 * kLatency + 4.0 * 7 / 8 * kSize, parse_algorithm("halving_doubling"), 8, half);
  expect_seconds(2 * kLatency + 4.0 * 7 / 8 * kSize, parse_algorithm("direct"), 8, half);
  expect_seconds(6 * (kLatency + kSize), parse_algorithm("tree"), 8, half);
  expect_seconds(14 * (kLatency + kSize), parse_algorithm("one_to_all"), 8, half);
}

TEST(SimulatedAllReduce, OnARingSparesTheRingAndDelaysTheButterfly) {
  const Network ring = with([](Network& n) { n.topology = Topology::ring; });
  for (const int world : {2, 3, 8, 16})
    EXPECT_NEAR(seconds(parse_algorithm("ring"), world, ring, 48'000),
                seconds(parse_algorithm("ring"), world, kSwitch, 48'000), 1e-12);
  // Distances 1, 2 and 4, and as many messages on the link in the middle.
  expect_seconds((1 + 2 + 4) * (kLatency + kSize), parse_algorithm("butterfly"), 8, ring);
  expect_seconds(2 * (1 + 2 + 4) * kLatency + 6 * kSize, parse_algorithm("tree"), 8, ring);
}

TEST(SimulatedAllReduce, OnARingCrowdsTheLinkInTheMiddleWithDirectMessages) {
  const Network ring = with([](Network& n) { n.topology = Topology::ring; });
  for (const int world : {4, 8, 512}) {
    // Half the world away at most; 1 + 2 + ... + n/2 messages meet on one link.
    const double half = world / 2;
    expect_seconds(2 * (half * kLatency + half * (half + 1) / 2 * kSize / world),
                   parse_algorithm("direct"), world, ring);
  }
}

TEST(SimulatedAllReduce, TakesARoundTooLargeToFollowAsBeginningTogether) {
  const Network ring = with([](Network& n) { n.topology = Topology::ring; });
  const double even = seconds(parse_algorithm("direct"), 512, ring, 512'000);
  EXPECT_NEAR(seconds(parse_algorithm("direct"), 512, ring, 512'001) / even, 1, 0.01);
}

TEST(SimulatedAllReduce, SharesAHostsLinkOnTwoLevels) {
  Network hosts = with([](Network& n) { n.topology = Topology::two_level; });
  hosts.workers_per_host = 4;
  hosts.host_latency = kLatency / 100;
  hosts.host_bytes_per_second = 50 * kSpeed;
  const double inside = hosts.host_latency + kSize / 50;
  // Two rounds inside a host, then four ranks at once through its link.
  expect_seconds(2 * inside + kLatency + 4 * kSize, parse_algorithm("butterfly"), 8, hosts);
  // Only the first rank of each host talks to the other.
  expect_seconds(4 * inside + 2 * (kLatency + kSize), parse_algorithm("tree"), 8, hosts);
  // A ring crosses each host's link once a round.
  expect_seconds(14 * (kLatency + kSize / 8), parse_algorithm("ring"), 8, hosts);
}

TEST(SimulatedAllReduce, OfOneWorkerAHostIsASwitch) {
  Network hosts = with([](Network& n) { n.topology = Topology::two_level; });
  for_each_algorithm([&](Algorithm algorithm) {
    EXPECT_DOUBLE_EQ(seconds(algorithm, 7, hosts), seconds(algorithm, 7, kSwitch));
  });
}

TEST(SimulatedAllReduce, CollectsWithoutWaitingWhereMessagesAreEager) {
  const Network eager = with([](Network& n) { n.eager_bytes = 1 << 30; });
  // Rank 0's link is busy throughout; a latency passes once each way.
  expect_seconds(2 * (kLatency + 7 * kSize), parse_algorithm("one_to_all"), 8, eager);
  expect_seconds(14 * (kLatency + kSize / 8), parse_algorithm("ring"), 8, eager);
}

TEST(SimulatedAllReduce, TakesLongerTheMoreBytesAndTheMoreLatency) {
  for (const Topology topology : {Topology::single_switch, Topology::ring, Topology::two_level})
    for_each_algorithm([&](Algorithm algorithm) {
      Network network = with([&](Network& n) { n.topology = topology; });
      network.workers_per_host = 3;
      network.overhead = 1e-5;
      network.reduce_bytes_per_second = 3e6;
      for (const int world : {2, 5, 8, 13}) {
        double before = 0;
        for (const int64_t count : {1, 10, 100, 1'000, 1'001, 10'000, 100'000}) {
          const double now = seconds(algorithm, world, network, count);
          // Where ranks share links, one element more can set them apart, which shares better.
          const double slack = topology == Topology::single_switch ? 1e-12 : 1e-3;
          EXPECT_GE(now, before * (1 - slack)) << count << " elements on " << world << " ranks";
          before = now;
        }
        Network far = network;
        far.latency *= 2;
        far.host_latency *= 2;
        EXPECT_GT(seconds(algorithm, world, far), seconds(algorithm, world, network));
      }
    });
}

TEST(SimulatedAllReduce, AgreesWithTheTextbook) {
  const auto rounds = [](Algorithm algorithm, int world) {
    return simulate(collective::all_reduce(algorithm, world, 1000), kElementBytes, kSwitch).rounds;
  };
  for (const int world : {2, 4, 8, 16}) {
    EXPECT_EQ(2 * rounds(parse_algorithm("butterfly"), world),
              rounds(parse_algorithm("tree"), world));
    EXPECT_EQ(rounds(parse_algorithm("one_to_all"), world), rounds(parse_algorithm("ring"), world));
    for (const int64_t eager : {int64_t{0}, int64_t{1} << 40}) {
      const Network network = with([&](Network& n) { n.eager_bytes = eager; });
      EXPECT_GE(seconds(parse_algorithm("one_to_all"), world, network, 1'000'000),
                seconds(parse_algorithm("ring"), world, network, 1'000'000));
    }
  }
}

TEST(SimulatedAllReduce, TakesNoTimeAloneOrForNothing) {
  for_each_algorithm([](Algorithm algorithm) {
    EXPECT_EQ(seconds(algorithm, 1, kSwitch), 0);
    EXPECT_EQ(seconds(algorithm, 9, kSwitch, 0), 0);
  });
}

TEST(SimulatedAllReduce, CountsMessagesBytesAndBusyLinks) {
  const Timing run =
      simulate(collective::all_reduce(parse_algorithm("ring"), 4, 1000), kElementBytes, kSwitch);
  EXPECT_EQ(run.messages, 24);
  EXPECT_EQ(run.bytes_total, 24 * 1000);
  EXPECT_EQ(run.bytes_most, 6 * 1000);
  EXPECT_EQ(run.finish, std::vector<double>(4, run.seconds));
  EXPECT_EQ(run.link_busy, std::vector<double>(8, 6 * 1000 / kSpeed));
}

TEST(SimulatedAllReduce, FinishesOn4096Ranks) {
  constexpr int kWorld = 4096;
  constexpr double kLevels = 12;
  constexpr double kFloat = kElementBytes / kSpeed;
  expect_seconds(2 * kLevels * (kLatency + kWorld * kFloat), parse_algorithm("tree"), kWorld,
                 kSwitch, kWorld);
  expect_seconds(kLevels * (kLatency + kWorld * kFloat), parse_algorithm("butterfly"), kWorld,
                 kSwitch, kWorld);
  expect_seconds(2 * kLevels * kLatency + 2 * (kWorld - 1) * kFloat,
                 parse_algorithm("halving_doubling"), kWorld, kSwitch, kWorld);
}

TEST(SimulatedAllReduce, RefusesNetworksWithValuesOutOfRange) {
  const auto run = [](const std::function<void(Network&)>& change) {
    return [change] { seconds(parse_algorithm("ring"), 2, with(change)); };
  };
  expect_bad_input(run([](Network& n) { n.latency = -1; }), {"latency of -1"});
  expect_bad_input(run([](Network& n) { n.bytes_per_second = 0; }), {"bandwidth of 0"});
  expect_bad_input(run([](Network& n) { n.overhead = std::nan(""); }), {"overhead of nan"});
  expect_bad_input(run([](Network& n) { n.reduce_bytes_per_second = 0; }), {"reduction speed"});
  expect_bad_input(run([](Network& n) { n.workers_per_host = 0; }), {"0 workers per host"});
  expect_bad_input([] { parse_topology("rings"); }, {"did you mean 'ring'"});
}

}  // namespace
}  // namespace lockstep::sim
