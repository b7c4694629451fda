// Small matrices on two asynchronous virtual devices.
#include "matpow/program.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "expect_error.h"
#include "lockstep/virtual_device.h"
#include "matpow/checks.h"
#include "matpow/measure.h"
#include "matpow/reference.h"

namespace lockstep::matpow {
namespace {

using torch::Tensor;

std::vector<c10::Device> devices_for(int count) {
  make_virtual_devices({.count = 2,
                        .mode = VirtualDeviceOptions::Mode::asynchronous,
                        .cores = 1,
                        .copy_latency = 2e-4});
  std::vector<c10::Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back(virtual_device(i));
  return devices;
}

Tensor random(int64_t size) {
  return (torch::rand({size, size}) * 2 - 1) * std::sqrt(3.0 / static_cast<double>(size));
}

struct Problem {
  int64_t size = 48;
  int64_t power = 10;
  Method method = Method::squaring;
  int64_t edge = 0;  ///< of tiles; 0: whole matrices
};

class Powers : public ::testing::TestWithParam<int> {  // on so many devices
 protected:
  Matrices matrices_of(int64_t size) {
    torch::manual_seed(1);
    const c10::Device device = devices_for(GetParam())[0];
    Matrices matrices{.a = random(size).pin_memory(device), .b = random(size).pin_memory(device)};
    const auto make = [&] { return torch::zeros({size, size}).pin_memory(device); };
    matrices.sum = make();
    for (int i = 0; i < 4; ++i) matrices.spares.push_back(make());
    return matrices;
  }

  static void run(const Matrices& matrices, const Problem& problem, int devices) {
    std::vector<std::unique_ptr<DeviceLanes>> owned;
    Lanes lanes;
    for (const c10::Device device : devices_for(devices)) {
      owned.push_back(std::make_unique<DeviceLanes>(device));
      lanes.push_back(owned.back().get());
    }
    const auto chain = chain_of(problem.power, problem.method);
    if (problem.edge == 0)
      run_whole(lanes, matrices, chain);
    else
      run_tiled(lanes, matrices, chain,
                {problem.edge, (problem.size + problem.edge - 1) / problem.edge});
  }

  Tensor sum_of(const Problem& problem) {
    const Matrices matrices = matrices_of(problem.size);
    run(matrices, problem, GetParam());
    return matrices.sum;
  }

  Tensor expected(const Problem& problem) {
    const Matrices matrices = matrices_of(problem.size);
    return torch::matrix_power(matrices.a.to(torch::kDouble), problem.power) +
           torch::matrix_power(matrices.b.to(torch::kDouble), problem.power);
  }

  void expect_right(const Problem& problem) {
    const Tensor right = expected(problem);
    const double error = (sum_of(problem) - right).abs().max().item<double>();
    EXPECT_LT(error, 1e-5 * right.abs().max().item<double>())
        << problem.size << "^" << problem.power << " by tiles of " << problem.edge;
  }
};

TEST_P(Powers, AreThoseOfLibTorchInDoublePrecision) {
  for (const int64_t power : {1, 2, 3, 10, 15})
    for (const Method method : {Method::squaring, Method::naive})
      expect_right({.power = power, .method = method});
  for (const int64_t size : {1, 2, 65}) expect_right({.size = size, .power = 3});
}

TEST_P(Powers, ByTilesAreTheSameToRounding) {
  for (const int64_t edge : {16, 32})
    for (const int64_t power : {1, 2, 10}) expect_right({.size = 70, .power = power, .edge = edge});
  expect_right({.size = 70, .power = 5, .method = Method::naive, .edge = 48});
}

TEST_P(Powers, LeaveTheInputsAndTheDevicesMemoryAsTheyWere) {
  for (const int64_t edge : {0, 16}) {
    const Matrices matrices = matrices_of(40);
    const Tensor a = matrices.a.clone(), b = matrices.b.clone();
    const int64_t before = memory_of(virtual_device(0)).in_use;
    run(matrices, {.size = 40, .edge = edge}, GetParam());
    EXPECT_TRUE(a.equal(matrices.a));
    EXPECT_TRUE(b.equal(matrices.b));
    EXPECT_EQ(memory_of(virtual_device(0)).in_use, before);
  }
}

TEST_P(Powers, ThatOverflowNameTheFirstProductThatDoes) {
  for (const int64_t edge : {0, 16}) {
    const Matrices matrices = matrices_of(40);
    matrices.a.mul_(1e6);
    matrices.b.mul_(1e9);
    // About 1e6, 1e12, 1e24, 1e30, 1e60 for A.
    expect_bad_input([&] { run(matrices, {.size = 40, .edge = edge}, GetParam()); },
                     {"A^10 (product 4 of 4)", "a NaN or an infinity", "--scale"});
    matrices.a.fill_(0);
    expect_bad_input([&] { run(matrices, {.size = 40, .edge = edge}, GetParam()); },
                     {"B^5 (product 3 of 4)"});
    matrices.b.fill_(0);
    matrices.a[3][5] = std::numeric_limits<float>::quiet_NaN();
    expect_bad_input([&] { run(matrices, {.size = 40, .edge = edge}, GetParam()); },
                     {"A^2 (product 1 of 4)"});
    matrices.a.fill_(3e38);
    matrices.b.fill_(3e38);
    expect_bad_input([&] { run(matrices, {.size = 40, .power = 1, .edge = edge}, GetParam()); },
                     {"A + B has"});
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Powers, ::testing::Values(1, 2));

Options small() {
  return {.size = 64, .power = 5, .devices = {1, 2}};
}

TEST(Matpow, MeasuresARunForEachNumberOfDevices) {
  const Result result = measure_on(devices_for(2), small());
  EXPECT_EQ(result.products, 3);
  EXPECT_GT(result.peak_gflops, 0);
  ASSERT_EQ(result.timings.size(), 2U);
  for (int i = 0; i < 2; ++i) {
    const matpow::Timing& timing = result.timings[static_cast<size_t>(i)];
    EXPECT_EQ(timing.devices, i + 1);
    for (const double seconds : timing.phase_seconds) {
      EXPECT_GT(seconds, 0);
      EXPECT_LT(seconds, timing.seconds);
    }
    EXPECT_NEAR(timing.gflops * timing.seconds, 6 * 2e-9 * 64 * 64 * 64, 1e-9);
    EXPECT_NEAR(timing.of_peak, timing.gflops / timing.devices / result.peak_gflops, 1e-12);
    EXPECT_LT(timing.max_error, 1e-5);
    EXPECT_EQ(timing.tile, 0);
  }
}

TEST(Matpow, StaysWithinADevicesMemoryByTiles) {
  Options options = small();
  options.size = 200;
  options.device_memory = int64_t{128} << 10;
  for (const matpow::Timing& timing : measure_on(devices_for(2), options).timings) {
    EXPECT_EQ(timing.tile, 48);  // six of them are 55 KiB
    EXPECT_LE(timing.peak_bytes, options.device_memory);
    EXPECT_LT(timing.max_error, 1e-5);
  }
}

TEST(Matpow, ByTilesCopiesWhileItComputes) {
  Options options = small();
  options.size = 200;
  options.devices = {1};
  options.device_memory = int64_t{128} << 10;
  const Result result = measure_on(devices_for(1), options);
  const auto on = [&](const char* track) {
    std::vector<observe::TraceSpan> spans;
    for (const observe::TraceSpan& span : result.trace) {
      EXPECT_EQ(span.process, "virtual:0");
      EXPECT_LE(span.begin, span.end);
      if (span.track == track) spans.push_back(span);
    }
    return spans;
  };
  const auto copies = on("copies in"), products = on("compute");
  ASSERT_EQ(copies.size(), products.size());
  EXPECT_EQ(copies.size(), size_t{2 * 3 * 5 * 5 * 5 + 5 * 5});
  int overlaps = 0;
  for (size_t i = 0; i + 1 < copies.size(); ++i) {
    EXPECT_LE(copies[i].end, products[i].begin) << "computes with what is there";
    if (i + 2 < copies.size()) {
      EXPECT_LE(products[i].end, copies[i + 2].begin) << "overwrites what was used";
    }
    overlaps += copies[i + 1].begin < products[i].end && products[i].begin < copies[i + 1].end;
  }
  EXPECT_GT(overlaps, 0);
}

TEST(Matpow, OnTheCpuHasOneDevice) {
  Options options = small();
  options.device = "cpu";
  options.devices = {};
  const Result result = measure(options);
  ASSERT_EQ(result.timings.size(), 1U);
  EXPECT_EQ(result.timings[0].devices, 1);
  EXPECT_LT(result.timings[0].max_error, 1e-5);
  options.devices = {2};
  expect_bad_input([&] { measure(options); }, {"--devices 2", "--device virtual"});
}

TEST(Matpow, RefusesWhatCannotBe) {
  const auto refused = [](const auto& change, std::initializer_list<std::string> parts) {
    Options options = small();
    change(options);
    expect_bad_input([&] { measure_on(devices_for(2), options); }, parts);
  };
  refused([](Options& o) { o.power = 0; }, {"--power 0"});
  refused([](Options& o) { o.size = 0; }, {"--size 0"});
  refused([](Options& o) { o.size = 900'000; }, {"--size 900000", "at most --size", "fits"});
  refused([](Options& o) { o.repeat = 0; }, {"--repeat 0"});
  refused([](Options& o) { o.seed = -1; }, {"--seed -1"});
  refused([](Options& o) { o.scale = 0; }, {"--scale 0"});
  refused([](Options& o) { o.scale = 1e-9; }, {"vanish", "--scale"});
  refused([](Options& o) { o.scale = 1e9; }, {"A^5 (product 3 of 3)", "--scale"});
}

TEST(Reference, FindsASingleWrongElement) {
  torch::manual_seed(2);
  const Tensor a = random(100), b = random(100);
  const Reference reference(a, b, 3, 1);
  const Tensor sum = torch::matrix_power(a, 3) + torch::matrix_power(b, 3);
  EXPECT_LT(reference.error_of(sum), 1e-5);
  sum[17][80] += 0.1;
  EXPECT_GT(reference.error_of(sum), kTolerance);
  sum[17][80] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(reference.error_of(sum) <= kTolerance);
}

}  // namespace
}  // namespace lockstep::matpow
