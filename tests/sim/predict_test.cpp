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

}  // namespace
}  // namespace lockstep::sim
