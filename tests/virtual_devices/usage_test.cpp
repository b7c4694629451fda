// The usage example of lockstep/virtual_device.h, in a process of its own each: devices are made
// once.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>

#include "lockstep/autocast.h"
#include "lockstep/error.h"
#include "lockstep/virtual_device.h"

namespace {

void use_a_device() {
  lockstep::make_virtual_devices({.count = 2, .memory_bytes = int64_t{1} << 30});
  const torch::Device device = lockstep::virtual_device(1);
  torch::nn::Linear model(4, 2);
  model->to(device);
  const auto y = model(torch::randn({8, 4}, device));
  y.sum().backward();
  const int64_t bytes = lockstep::memory_of(device).in_use;
  const auto x = y.detach();
  lockstep::launch_kernel(
      {x}, [](const std::vector<torch::Tensor>& on_cpu) { on_cpu[0].data_ptr<float>()[0] = 1; });
  if (y.cpu()[0][0].item<float>() != 1) std::exit(2);
  constexpr int64_t kResult = 8 * 2, kParameters = 4 * 2 + 2;
  std::exit(bytes == 4 * (kResult + 2 * kParameters) ? 0 : 1);
}

TEST(UsageDeathTest, OfADeviceCountsWhatAModelAndItsGradientsUse) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(use_a_device(), testing::ExitedWithCode(0), "");
}

// The usage examples of lockstep/autocast.h and of launch_host_function.
void compute_in_half_precision() {
  lockstep::make_virtual_devices({.count = 1});
  const torch::Device device = lockstep::virtual_device(0);
  torch::nn::Linear model(4, 2);
  model->to(device);
  const torch::Tensor x = torch::ones({3, 4}, device), y = torch::tensor({0, 1, 1}).to(device);
  torch::Tensor loss;
  {
    const lockstep::Autocast autocast(device.type(), torch::kHalf);
    loss = torch::cross_entropy_loss(model(x), y);
  }
  loss.backward();
  auto end = std::chrono::steady_clock::time_point();
  lockstep::launch_host_function(device, [&] { end = std::chrono::steady_clock::now(); });
  const bool called = end != std::chrono::steady_clock::time_point();
  std::exit(called && model->weight.grad().scalar_type() == torch::kFloat ? 0 : 1);
}

TEST(UsageDeathTest, OfAutocastTrainsParametersInFloat32) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(compute_in_half_precision(), testing::ExitedWithCode(0), "");
}

// The usage example of lockstep/device_memory.h.
void limit_the_cpu() {
  lockstep::limit_cpu_memory(int64_t{1} << 30);
  const auto x = torch::ones({1000});
  const int64_t bytes = lockstep::memory_of(torch::kCPU).in_use;
  try {
    torch::empty({int64_t{1} << 28});
  } catch (const lockstep::OutOfMemory&) {
    std::exit(bytes == 4000 && lockstep::virtual_device_count() == 0 ? 0 : 1);
  }
  std::exit(2);
}

TEST(UsageDeathTest, OfTheCpusLimitNeedsNoVirtualDevice) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(limit_the_cpu(), testing::ExitedWithCode(0), "");
}

void make_devices_late() {
  torch::ones({1}).requires_grad_().sum().backward();
  try {
    lockstep::make_virtual_devices({.count = 2});
  } catch (const lockstep::BadInput& error) {
    std::fputs(error.what(), stderr);
    std::exit(lockstep::virtual_device_count() == 0 ? 0 : 1);
  }
  std::exit(2);
}

TEST(UsageDeathTest, OfDevicesBeginsBeforeTheFirstBackwardPass) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(make_devices_late(), testing::ExitedWithCode(0), "after the first backward pass");
}

}  // namespace
