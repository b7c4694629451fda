// What processors, waking, bytes' overheads and bursts cost, on plans small enough for closed
// forms.
#include <gtest/gtest.h>

#include <functional>

#include "collective/plan/all_reduce.h"
#include "collective/plan/collectives.h"
#include "expect_error.h"
#include "sim/simulate.h"

namespace lockstep::sim {
namespace {

using collective::Algorithm;
using collective::Plan;

constexpr double kLatency = 1e-3;
constexpr double kSpeed = 1e6;
constexpr int64_t kBytes = 1000;
constexpr double kTransfer = kBytes / kSpeed;
constexpr Network kSwitch{.latency = kLatency, .bytes_per_second = kSpeed};

Network with(const std::function<void(Network&)>& change) {
  Network network = kSwitch;
  change(network);
  return network;
}

// A message from rank 0 to rank 1.
double one_way(const Network& network, int64_t bytes = kBytes) {
  return simulate(collective::send_receive(2, bytes, 0, 1), 1, network).seconds;
}

// A round in which n ranks exchange messages in pairs.
double exchange(const Network& network, int world = 2, int64_t bytes = kBytes) {
  EXPECT_EQ(world, 2);
  return simulate(collective::all_reduce(collective::parse_algorithm("butterfly"), world, bytes), 1,
                  network)
      .seconds;
}

TEST(Processors, CostNothingByDefault) {
  EXPECT_NEAR(one_way(kSwitch), kLatency + kTransfer, 1e-12);
  EXPECT_NEAR(exchange(kSwitch), kLatency + kTransfer, 1e-12);
}

TEST(Processors, ThatNobodySharesChangeNothing) {
  const auto change = [](Network& n) {
    n.overhead = 1e-4;
    n.wake = 3e-4;
    n.overhead_per_byte = 1e-7;
    n.eager_bytes = 1 << 20;
  };
  const Network network = with(change);
  const Network many = with([&](Network& n) {
    change(n);
    n.processors = 1e9;
  });
  for (const Algorithm algorithm : collective::planned_algorithms()) {
    const Plan plan = collective::all_reduce(algorithm, 8, 100);
    EXPECT_NEAR(simulate(plan, 4, many).seconds, simulate(plan, 4, network).seconds, 1e-9)
        << algorithm.name();
  }
}

TEST(Waking, CostsAReceiverOnceARoundHoweverManyMessages) {
  constexpr double kWake = 1e-2;
  const Network network = with([](Network& n) { n.wake = kWake; });
  EXPECT_NEAR(one_way(network), one_way(kSwitch) + kWake, 1e-12);
  // Two rounds, in each of which everyone receives from all others.
  const Plan direct = collective::all_reduce(collective::parse_algorithm("direct"), 8, 800);
  EXPECT_NEAR(simulate(direct, 1, network).seconds,
              simulate(direct, 1, kSwitch).seconds + 2 * kWake, 1e-12);
}

TEST(OverheadOfBytes, IsPaidAtBothEndsOfEagerMessagesOnly) {
  constexpr double kPerByte = 1e-6;
  const Network eager = with([](Network& n) {
    n.overhead_per_byte = kPerByte;
    n.eager_bytes = kBytes;
  });
  EXPECT_NEAR(one_way(eager), kLatency + kTransfer + 2 * kBytes * kPerByte, 1e-12);
  const Network not_eager = with([](Network& n) {
    n.overhead_per_byte = kPerByte;
    n.eager_bytes = kBytes - 1;
  });
  EXPECT_NEAR(one_way(not_eager), kLatency + kTransfer, 1e-12);
}

TEST(SharedProcessors, DoTheWorkOfAllRanksOneAfterAnother) {
  constexpr double kOverhead = 1.0;  // so much that nothing else counts
  // Two ranks send and receive a message each: four overheads.
  for (const double processors : {0.5, 1.0}) {
    const Network network = with([&](Network& n) {
      n.overhead = kOverhead;
      n.processors = processors;
    });
    EXPECT_NEAR(exchange(network), 4 * kOverhead / processors + kLatency, 1e-12);
  }
  const Network one_each = with([](Network& n) {
    n.overhead = kOverhead;
    n.processors = 2;
  });
  EXPECT_NEAR(exchange(one_each), 2 * kOverhead + kLatency + kTransfer, 1e-12);
}

TEST(SharedProcessors, WakeRanksOneAfterAnother) {
  const Network network = with([](Network& n) {
    n.wake = 1.0;
    n.processors = 1;
  });
  EXPECT_NEAR(exchange(network), 2.0 + kLatency, 1e-12);
}

TEST(SharedProcessors, AreNotTheBottleneckIfLinksAreSlower) {
  const Network network = with([](Network& n) {
    n.overhead = 1e-6;
    n.processors = 1;
  });
  const Network own = with([](Network& n) { n.overhead = 1e-6; });
  EXPECT_NEAR(exchange(network), exchange(own), 1e-12);
}

TEST(Bursts, PassWithoutTakingTime) {
  const Network network = with([](Network& n) { n.burst_bytes = kBytes; });
  EXPECT_NEAR(one_way(network, kBytes), kLatency, 1e-12);
  EXPECT_NEAR(one_way(network, kBytes / 2), kLatency, 1e-12);
  EXPECT_NEAR(one_way(network, 3 * kBytes), kLatency + 2 * kTransfer, 1e-12);
}

TEST(Bursts, AreUsedUpUntilALinkHasPaused) {
  // Rounds follow each other at once: a latency is all that a link rests in between.
  const Network network = with([](Network& n) { n.burst_bytes = 10 * kBytes; });
  const Plan ring = collective::all_reduce(collective::parse_algorithm("ring"), 4, 4 * 20 * kBytes);
  const double rounds = 6;
  const double free = 10 + (rounds - 1) * kLatency * kSpeed / kBytes;  // in messages of kBytes
  EXPECT_NEAR(simulate(ring, 1, network).seconds,
              rounds * kLatency + (rounds * 20 - free) * kTransfer, 1e-9);
}

TEST(Bursts, OfNoBytesChangeNothing) {
  const Network network = with([](Network& n) { n.burst_bytes = 0; });
  for (const Algorithm algorithm : collective::planned_algorithms()) {
    const Plan plan = collective::all_reduce(algorithm, 5, 1000);
    EXPECT_EQ(simulate(plan, 4, network).seconds, simulate(plan, 4, kSwitch).seconds)
        << algorithm.name();
  }
}

TEST(Network, RefusesProcessorsWakingAndBurstsOutOfRange) {
  const auto refused = [](const std::function<void(Network&)>& change, const std::string& why) {
    expect_bad_input([&] { check(with(change)); }, {why});
  };
  refused([](Network& n) { n.processors = 0; }, "0 processors");
  refused([](Network& n) { n.wake = -1; }, "wake of -1");
  refused([](Network& n) { n.overhead_per_byte = kUnlimited; }, "overhead of a byte");
  refused([](Network& n) { n.burst_bytes = -5; }, "bursts of -5");
}

}  // namespace
}  // namespace lockstep::sim
