#include "sim/fit.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "expect_error.h"

namespace lockstep::sim {
namespace {

constexpr double kFixed = 60e-6;
constexpr double kSpeed = 118e6;

std::vector<Measurement> measured(double noise, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> factor(1 - noise, 1 + noise);
  std::vector<Measurement> points;
  for (int64_t bytes = 0; bytes <= 1 << 22; bytes = bytes == 0 ? 64 : 4 * bytes)
    points.push_back({bytes, (kFixed + static_cast<double>(bytes) / kSpeed) * factor(random)});
  return points;
}

TEST(Fit, FindsTheNetworkBehindExactTimes) {
  const Network network = fit(measured(0));
  EXPECT_NEAR(network.latency / kFixed, 1, 1e-9);
  EXPECT_NEAR(network.bytes_per_second / kSpeed, 1, 1e-9);
}

TEST(Fit, IsHardlyMovedByNoise) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const Network network = fit(measured(0.05, seed));
    EXPECT_NEAR(network.latency / kFixed, 1, 0.05);
    EXPECT_NEAR(network.bytes_per_second / kSpeed, 1, 0.05);
  }
}

TEST(Fit, LeavesWhatIsKnownAndTakesOverheadsFromTheLatency) {
  const Network network =
      fit(measured(0), {.topology = Topology::ring, .overhead = 10e-6, .eager_bytes = 7});
  EXPECT_NEAR(network.latency, kFixed - 20e-6, 1e-12);
  EXPECT_EQ(network.overhead, 10e-6);
  EXPECT_EQ(network.topology, Topology::ring);
  EXPECT_EQ(network.eager_bytes, 7);
}

TEST(Fit, HasNoNegativeLatency) {
  const std::vector<Measurement> points = {{1000, 1.0}, {2000, 3.0}, {4000, 6.0}};
  const Network network = fit(points);
  EXPECT_EQ(network.latency, 0);
  EXPECT_NEAR(network.bytes_per_second, 750, 100);
}

TEST(Fit, RefusesTimesThatSayNothing) {
  const auto refused = [](std::vector<Measurement> points) { return [=] { fit(points); }; };
  expect_bad_input(refused({}), {"0 measurements", "two sizes"});
  expect_bad_input(refused({{8, 1}, {8, 2}}), {"2 measurements of one size"});
  expect_bad_input(refused({{8, 1}, {9, 0}}), {"9 bytes in 0 seconds"});
  expect_bad_input(refused({{8, 2}, {1000, 1}}), {"no longer when they are longer"});
}

}  // namespace
}  // namespace lockstep::sim
