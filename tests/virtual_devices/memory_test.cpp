#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include "device/memory_account.h"
#include "devices.h"
#include "expect_error.h"
#include "lockstep/error.h"
#include "virtual_devices/counting_allocator.h"
#include "virtual_devices/devices.h"

namespace lockstep {
namespace {

using torch::Tensor;

constexpr int64_t kMiB = int64_t{1} << 20;

Tensor bytes_on(torch::Device on, int64_t bytes) {
  return torch::empty({bytes}, torch::TensorOptions(on).dtype(torch::kUInt8));
}

TEST(Memory, OfADeviceIsCountedWhileTensorsExist) {
  const int64_t before = memory_of(device(0)).in_use, others = memory_of(device(1)).in_use;
  {
    const Tensor x = torch::ones({1000}, device(0));
    EXPECT_EQ(memory_of(device(0)).in_use, before + 4000);
    const Tensor y = x + 1, view = x.view({10, 100});
    EXPECT_EQ(memory_of(device(0)).in_use, before + 8000);
    const Tensor on_host = torch::ones({1000});
  }
  EXPECT_EQ(memory_of(device(0)).in_use, before);
  EXPECT_EQ(memory_of(device(1)).in_use, others);
}

TEST(Memory, HasAPeakThatCanBeForgotten) {
  forget_peak_memory(device(0));
  const int64_t before = memory_of(device(0)).in_use;
  bytes_on(device(0), 5 * kMiB);
  EXPECT_EQ(memory_of(device(0)).peak, before + 5 * kMiB);
  forget_peak_memory(device(0));
  EXPECT_EQ(memory_of(device(0)).peak, before);
}

TEST(Memory, ThatIsResizedIsCountedAnew) {
  const int64_t before = memory_of(device(2)).in_use;
  Tensor x = bytes_on(device(2), kMiB);
  x.resize_({3 * kMiB});
  EXPECT_EQ(memory_of(device(2)).in_use, before + 3 * kMiB);
  x = Tensor();
  EXPECT_EQ(memory_of(device(2)).in_use, before);
}

TEST(Memory, BeyondTheLimitIsRefusedWithNumbers) {
  const Tensor half = bytes_on(device(1), kDeviceBytes / 2);
  const int64_t in_use = memory_of(device(1)).in_use;
  try {
    bytes_on(device(1), kDeviceBytes / 2 + 1);
    FAIL() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.device(), "virtual:1");
    EXPECT_EQ(error.asked(), kDeviceBytes / 2 + 1);
    EXPECT_EQ(error.in_use(), in_use);
    EXPECT_EQ(error.limit(), kDeviceBytes);
  }
  EXPECT_EQ(memory_of(device(1)).in_use, in_use);
}

// The peak of a training step on a device.
int64_t step(torch::nn::Conv2d& conv, torch::Device on, int64_t batch) {
  forget_peak_memory(on);
  const int64_t before = memory_of(on).in_use;
  const Tensor x = torch::ones({batch, 4, 64, 64}, on);
  torch::relu(conv(x)).pow(2).sum().backward();
  conv->zero_grad();
  return memory_of(on).peak - before;
}

TEST(Memory, ThatAdmitsEightSamplesAndNotNineGoesOnWithEight) {
  const torch::Device on = device(0);
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(4, 16, 3));
  conv->to(on);
  step(conv, on, 8);
  const int64_t eight = step(conv, on, 8), nine = step(conv, on, 9);
  ASSERT_LT(eight, nine);
  const int64_t before = memory_of(on).in_use;
  const Tensor rest = bytes_on(on, kDeviceBytes - before - (eight + nine) / 2);
  const int64_t filled = memory_of(on).in_use;
  EXPECT_EQ(step(conv, on, 8), eight);
  EXPECT_THROW(step(conv, on, 9), OutOfMemory);
  EXPECT_EQ(memory_of(on).in_use, filled);
  EXPECT_EQ(step(conv, on, 8), eight);
}

TEST(Memory, OfKernelsIsWorkspaceAndOfTheirResultsWhatTheThreadAllocates) {
  const torch::Device on = device(0);
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(4, 16, 3));
  conv->to(on);
  const MemoryByUse before = memory_of(on).now;
  const MemoryScope scope(MemoryUse::activations);
  const Tensor y = conv(torch::ones({2, 4, 32, 32}, on));
  const MemoryByUse after = memory_of(on).now;
  EXPECT_GE(after[MemoryUse::activations] - before[MemoryUse::activations],
            static_cast<int64_t>(y.nbytes()));
  EXPECT_EQ(after[MemoryUse::workspace], before[MemoryUse::workspace]);
  EXPECT_EQ(after[MemoryUse::other], before[MemoryUse::other]);
}

TEST(Memory, OfAKernelIsNotLessForWhatItFreesOfEarlierMemory) {
  using virtual_devices::ComputingOn;
  device(0);
  MemoryAccount& account = virtual_devices::Devices::get().account(0);
  const auto allocate = [] { return c10::GetCPUAllocator()->allocate(1000); };
  c10::DataPtr earlier;
  {
    const ComputingOn before(&account);
    earlier = allocate();
  }
  const ComputingOn computing(&account);
  const c10::DataPtr one = allocate();
  earlier.clear();
  const c10::DataPtr other = allocate();
  EXPECT_EQ(computing.most(), 2000);
}

TEST(Memory, OfTheCpuIsCountedAndLimitedOnceThatWasAskedFor) {
  const Tensor from_before = bytes_on(torch::kCPU, kMiB);
  limit_cpu_memory(0);
  const int64_t before = memory_of(torch::kCPU).in_use;
  {
    const Tensor x = bytes_on(torch::kCPU, kMiB);
    EXPECT_EQ(memory_of(torch::kCPU).in_use, before + kMiB);
    const Tensor on_device = bytes_on(device(0), kMiB);
    EXPECT_EQ(memory_of(torch::kCPU).in_use, before + kMiB);
    limit_cpu_memory(before + 2 * kMiB);
    EXPECT_THROW(bytes_on(torch::kCPU, kMiB + 1), OutOfMemory);
    EXPECT_EQ(bytes_on(torch::kCPU, kMiB).size(0), kMiB);
  }
  EXPECT_EQ(memory_of(torch::kCPU).in_use, before);
  EXPECT_EQ(memory_of(torch::kCPU).limit, before + 2 * kMiB);
  limit_cpu_memory(0);
  expect_bad_input([] { limit_cpu_memory(-1); }, {"limit_cpu_memory(-1)"});
}

TEST(Devices, ThatDoNotExistAreRefused) {
  device(0);
  EXPECT_EQ(virtual_device_count(), 3);
  expect_bad_input([] { virtual_device(7); }, {"virtual:7", "virtual:0 to virtual:2"});
  expect_bad_input([] { torch::ones({1}, torch::Device(device(0).type(), 7)); },
                   {"virtual:7", "virtual:0 to virtual:2"});
  expect_bad_input([] { memory_of(torch::kMeta); }, {"the memory of meta is not counted"});
}

TEST(Devices, AreMadeOnce) {
  device(0);
  expect_bad_input([] { make_virtual_devices({.count = 4}); },
                   {"made once", "there are 3", "should be 4"});
  expect_bad_input([] { make_virtual_devices({.count = 0}); }, {"0 virtual devices", "1 to 64"});
  expect_bad_input([] { make_virtual_devices({.count = 1, .memory_bytes = -1}); }, {"-1 bytes"});
}

}  // namespace
}  // namespace lockstep
