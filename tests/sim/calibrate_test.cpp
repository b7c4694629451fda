#include "sim/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "sim/predict.h"
#include "transport/carriers.h"
#include "transport/ranks.h"

namespace lockstep::sim {
namespace {

using collective::Algorithm;
using collective::Communicator;
using transport::errors_of_ranks;
using transport::no_errors;
using transport::Rendezvous;

void expect_plausible(const Network& network) {
  EXPECT_NO_THROW(check(network));
  for (const double value : {network.latency, network.overhead, network.overhead_per_byte,
                             network.bytes_per_second, network.reduce_bytes_per_second})
    EXPECT_TRUE(std::isfinite(value) && value > 0) << value;
  EXPECT_TRUE(std::isfinite(network.wake) && network.wake >= 0) << network.wake;
  EXPECT_GE(network.burst_bytes, 0);
}

TEST(Calibration, FindsTheSameNetworkOnEveryRank) {
  for (const int world : {2, 3}) {
    std::mutex mutex;
    std::vector<Network> found;
    EXPECT_EQ(errors_of_ranks(world,
                              [&](Rendezvous& rendezvous) {
                                Communicator group(transport::connect_over("tcp", rendezvous));
                                const Network network = calibrate(group);
                                const std::lock_guard lock(mutex);
                                found.push_back(network);
                              }),
              no_errors(world));
    ASSERT_EQ(found.size(), static_cast<size_t>(world));
    expect_plausible(found[0]);
    for (const Network& network : found) {
      EXPECT_EQ(network.latency, found[0].latency);
      EXPECT_EQ(network.overhead, found[0].overhead);
      EXPECT_EQ(network.overhead_per_byte, found[0].overhead_per_byte);
      EXPECT_EQ(network.wake, found[0].wake);
      EXPECT_EQ(network.bytes_per_second, found[0].bytes_per_second);
      EXPECT_EQ(network.reduce_bytes_per_second, found[0].reduce_bytes_per_second);
      EXPECT_EQ(network.burst_bytes, found[0].burst_bytes);
      EXPECT_EQ(network.processors, found[0].processors);
    }
    EXPECT_NE(describe(found[0]).find("us of processor time a message"), std::string::npos);
  }
}

TEST(Calibration, LeavesTheGroupFitForUse) {
  EXPECT_EQ(errors_of_ranks(
                2,
                [](Rendezvous& rendezvous) {
                  Communicator group(transport::connect_over("tcp", rendezvous));
                  calibrate(group);
                  std::vector<float> values(100, 1);
                  group.all_reduce({reinterpret_cast<std::byte*>(values.data()), 100, Type::f32});
                  EXPECT_EQ(values, std::vector<float>(100, 2));
                }),
            no_errors(2));
}

TEST(Calibration, OfOneRankMeasuresNothing) {
  EXPECT_EQ(errors_of_ranks(1,
                            [](Rendezvous& rendezvous) {
                              Communicator group(transport::connect_over("shm", rendezvous));
                              EXPECT_EQ(calibrate(group).latency, Network().latency);
                            }),
            no_errors(1));
}

TEST(Cheapest, IsFastForFewBytesAndSendsLittleOfMany) {
  const auto choose =
      cheapest_on({.latency = 50e-6, .bytes_per_second = 125e6, .overhead = 10e-6}, 8);
  EXPECT_EQ(choose(4), collective::parse_algorithm("butterfly"));
  // Not ring, which is not canonical; and of those as good as equal, halving_doubling.
  EXPECT_EQ(choose(64 << 20), collective::parse_algorithm("halving_doubling"));
}

TEST(Cheapest, IsTheFirstPredictionWhereItIsClearlyTheBest) {
  // Many messages at a time cost nothing here, and rounds cost a lot.
  const Network network{.latency = 1, .bytes_per_second = 1e6};
  EXPECT_EQ(predict(8, 1 << 22, network, Among::canonical)[0].algorithm,
            collective::parse_algorithm("direct"));
  EXPECT_EQ(cheapest_on(network, 8)(1 << 22), collective::parse_algorithm("direct"));
}

TEST(Cheapest, IsCanonicalForEverySizeAndWorld) {
  for (const int world : {1, 2, 5, 16}) {
    const auto choose = cheapest_on({}, world);
    for (int64_t bytes = 0; bytes <= 1 << 26; bytes = bytes * 8 + 1)
      EXPECT_TRUE(choose(bytes).is_canonical()) << bytes;
  }
}

TEST(Cheapest, IsAlmostAsFastAsTheFastest) {
  for (const double latency : {1e-6, 50e-6, 1e-3}) {
    const Network network{.latency = latency, .overhead = latency / 10};
    const auto choose = cheapest_on(network, 8);
    for (int64_t bytes = 1; bytes <= 1 << 24; bytes *= 16) {
      const auto predictions = predict(8, bytes, network, Among::canonical);
      for (const Prediction& prediction : predictions)
        if (prediction.algorithm == choose(bytes)) {
          EXPECT_LE(prediction.seconds, 1.05 * predictions[0].seconds) << bytes;
        }
    }
  }
}

}  // namespace
}  // namespace lockstep::sim
