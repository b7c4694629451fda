#include "sim/predict.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/simulate.h"

namespace lockstep::sim {
namespace {

using collective::Algorithm;

constexpr Network kSwitch{.latency = 50e-6, .bytes_per_second = 125e6, .overhead = 10e-6};

TEST(Prediction, IsSortedAndOfEveryAlgorithm) {
  const auto predictions = predict(8, 1 << 20, kSwitch);
  EXPECT_EQ(predictions.size(), collective::planned_algorithms().size());
  EXPECT_TRUE(std::is_sorted(predictions.begin(), predictions.end(),
                             [](auto& a, auto& b) { return a.seconds < b.seconds; }));
}

TEST(Prediction, IsWhatTheSimulatorSays) {
  for (const Prediction& prediction : predict(6, 4000, kSwitch))
    EXPECT_EQ(prediction.seconds,
              simulate(collective::all_reduce(prediction.algorithm, 6, 1000), 4, kSwitch).seconds);
}

TEST(Prediction, PrefersFewRoundsForFewBytesAndFewBytesForMany) {
  EXPECT_EQ(predict(16, 64, kSwitch)[0].algorithm, collective::parse_algorithm("butterfly"));
  const Algorithm large = predict(16, 64 << 20, kSwitch)[0].algorithm;
  EXPECT_TRUE(large == collective::parse_algorithm("direct") ||
              large == collective::parse_algorithm("halving_doubling"));
}

TEST(Prediction, AmongCanonicalAlgorithmsHasNoOther) {
  for (const Prediction& prediction : predict(8, 1 << 20, kSwitch, Among::canonical))
    EXPECT_TRUE(prediction.algorithm.is_canonical());
}

TEST(Prediction, OfEquallyFastAlgorithmsIsInTheOrderOfTheirNames) {
  EXPECT_EQ(predict(1, 4, kSwitch)[0].algorithm, collective::planned_algorithms()[0]);
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
