#include "train/memory.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "lockstep/error.h"
#include "lockstep/virtual_device.h"
#include "train/placement.h"
#include "train/short_runs.h"

namespace lockstep::train {
namespace {

constexpr int64_t kDeviceBytes = int64_t{64} << 20;

// Before the first backward pass of any test.
[[maybe_unused]] const int devices =
    (make_virtual_devices({.count = 2, .memory_bytes = kDeviceBytes}), virtual_device_count());
constexpr const char* kDevices = "virtual:2";

void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_TRUE(has(message, part)) << "'" << part << "' is not in: " << message;
}

/// Of training a convnet with one pass a step.
class MemoryLimit : public ::testing::TestWithParam<const char*> {
 protected:
  MemoryLimit() {
    std::vector<float> x(72 * 28 * 28);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17);
    std::vector<int64_t> y(72);
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int64_t>(i % 3);
    data::write_npy(folder_ / "x.npy", "<f4", "(72, 1, 28, 28)", std::as_bytes(std::span(x)));
    data::write_npy(folder_ / "y.npy", "<i8", "(72,)", std::as_bytes(std::span(y)));
  }

  bool on_cpu() const { return GetParam() == std::string("cpu"); }
  c10::Device device() const { return on_cpu() ? c10::Device(c10::kCPU) : virtual_device(0); }

  Recipe recipe(int64_t batch) const {
    Recipe recipe;
    recipe.data.name = "npy:" + folder_.path().string();
    recipe.model.name = "convnet";
    recipe.train.batch = batch;
    recipe.train.shards = 1;
    recipe.train.steps = 3;
    recipe.train.kernels = "torch";
    recipe.device.kind = GetParam();
    recipe.evaluate.batch = 4;
    if (!on_cpu()) recipe.device.memory = "64MiB";
    return recipe;
  }

  run::Json trained(const Recipe& recipe) {
    return train(recipe, folder_ / fmt::format("run-{}", ++runs_), {}, on_cpu() ? "" : kDevices);
  }

  /// What a batch needs at most, beside what is in use before.
  int64_t peak(int64_t batch) {
    const Recipe unlimited = recipe(batch);
    device_for(unlimited, 0, on_cpu() ? "" : kDevices);
    forget_peak_memory(device());
    const int64_t before = memory_of(device()).in_use;
    trained(unlimited);
    return memory_of(device()).peak - before;
  }

  TemporaryFolder folder_;
  int runs_ = 0;
};

TEST_P(MemoryLimit, ThatAdmitsEightSamplesAndNotNineSaysSoAndGoesOnWithEight) {
  const std::string unlimited = trained(recipe(8))["model_sha256"];
  const int64_t eight = peak(8), nine = peak(9);
  ASSERT_LT(eight, nine);
  const int64_t before = memory_of(device()).in_use;
  const int64_t limit = before + (eight + nine) / 2;
  Recipe limited = recipe(9);
  torch::Tensor rest;  // of a device, whose limit stays
  if (on_cpu())
    limited.device.memory = fmt::format("{}", limit);
  else
    rest = torch::empty({kDeviceBytes - limit}, torch::TensorOptions(device()).dtype(torch::kByte));
  const int64_t filled = memory_of(device()).in_use;
  try {
    trained(limited);
    FAIL() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    expect_parts(error.what(),
                 {"out of memory", "are in use of", "more were asked for", "peak", "parameters",
                  "gradients", "optimizer", "activations", "in a pass over 9 samples",
                  "about 8 would fit", "train.batch = 8 in 1 shard"});
    EXPECT_GT(error.asked() + error.in_use(), error.limit());
  }
  EXPECT_EQ(memory_of(device()).in_use, filled) << "something was leaked";
  limited.train.batch = 8;
  const run::Json end = trained(limited);
  EXPECT_EQ(end["model_sha256"], unlimited);
  EXPECT_EQ(end["memory"]["limit"], memory_of(device()).limit);
  EXPECT_EQ(memory_of(device()).in_use, filled);
}

TEST_P(MemoryLimit, IsReportedWithWhatWasInUseAtThePeak) {
  const run::Json memory = trained(recipe(8))["memory"];
  EXPECT_EQ(memory["device"], on_cpu() ? "cpu" : "virtual:0");
  int64_t sum = 0;
  for (const std::string_view use : kMemoryUses) sum += memory[std::string(use)].get<int64_t>();
  EXPECT_EQ(sum, memory["peak"]);
  EXPECT_GT(memory["parameters"], 0);
  EXPECT_EQ(memory["gradients"], memory["optimizer"]);  // one slot, one momentum
  EXPECT_GT(memory["activations"].get<int64_t>() + memory["workspace"].get<int64_t>(),
            memory["parameters"].get<int64_t>());
}

/// Of a worker with several devices.
class MemoryLimitOfDevices : public MemoryLimit {};

TEST_P(MemoryLimitOfDevices, IsReportedWithTheDeviceThatHasTooLittle) {
  Recipe parallel = recipe(16);
  parallel.train.shards = 2;
  parallel.parallel.mode = "dp";
  const c10::Device second = virtual_device(1);
  const int64_t before = memory_of(second).in_use;
  const torch::Tensor rest = torch::empty({kDeviceBytes - before - (int64_t{1} << 20)},
                                          torch::TensorOptions(second).dtype(torch::kByte));
  try {
    trained(parallel);
    FAIL() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.device(), "virtual:1");
    expect_parts(error.what(), {"virtual:1", "out of memory", "this was step 0",
                                "in a pass over 8 samples", "would fit"});
  }
  EXPECT_EQ(memory_of(second).in_use, before + rest.numel()) << "something was leaked";
}

INSTANTIATE_TEST_SUITE_P(On, MemoryLimitOfDevices, ::testing::Values("virtual"));
INSTANTIATE_TEST_SUITE_P(On, MemoryLimit, ::testing::Values("cpu", "virtual"),
                         [](const auto& each) { return std::string(each.param); });

TEST(Memory, ThatTheModelAloneExceedsIsRefusedWithItsPartsAndHowManyDevicesWouldDo) {
  const TemporaryFolder folder;
  Recipe recipe = tiny_recipe(folder);
  recipe.device.memory = "2MiB";
  recipe.optimizer.name = "adamw";
  recipe.train.shards = 1;
  try {
    train(recipe, folder / "run");
    FAIL() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    expect_parts(error.what(),
                 {"cpu has 2.0 MiB of memory", "needs 4.1 MiB before the first step",
                  "gradients 1.0 MiB", "the optimizer 2.0 MiB", "at least 3 devices"});
  }
}

TEST(Memory, OfSeveralSlotsOfGradientsIsRefusedWithWhatFewerShardsNeed) {
  const TemporaryFolder folder;
  Recipe recipe = tiny_recipe(folder);
  recipe.device.memory = "4MiB";
  recipe.train.shards = 8;  // in four slots, of 1 MiB each
  for (const int64_t stages : {1, 2}) {
    recipe.parallel.stages = stages;
    const std::string message =
        message_of<OutOfMemory>([&] { train(recipe, folder / std::to_string(stages)); });
    expect_parts(message, {"in 4 slots", "--shards 1 --accumulate 8 needs 3.1 MiB", "another model",
                           "`lockstep fit`"});
    EXPECT_FALSE(has(message, "nor would any number")) << message;
  }
}

TEST(Memory, ThatIsAlmostEnoughIsSaidInBytes) {
  const MemoryNeeds needs{.parameters = (int64_t{4} << 20) + 100};
  const std::string message =
      message_of<OutOfMemory>([&] { require_memory(needs, "cpu", int64_t{4} << 20, ""); });
  expect_parts(message, {"has 4,194,304 B of memory", "needs 4,194,404 B"});
}

TEST(Memory, ThatNoStagesHaveIsNotSoughtInStages) {
  const TemporaryFolder folder;
  Recipe recipe = tiny_recipe(folder);
  recipe.device.memory = "64KiB";
  recipe.train.shards = 1;
  try {
    train(recipe, folder / "run");
    FAIL() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    expect_parts(error.what(), {"set device.memory to more than that: it would need",
                                "devices of this size, but has", "layers to divide among them"});
  }
}

TEST(Memory, OfAnOptimizerWhoseStateIsDividedIsThatOfAShare) {
  const torch::nn::Linear model(10, 8);
  Recipe recipe;
  recipe.optimizer.name = "adamw";
  const collective::Shards shards = collective::Shards::even(8, 4);
  const MemoryNeeds whole = memory_needs(*model, recipe, shards, 0);
  EXPECT_EQ(whole.optimizer, 2 * (80 * 4 + 64));  // the bias has a cache line
  recipe.parallel.zero = true;
  const MemoryNeeds divided = memory_needs(*model, recipe, shards, 0);
  EXPECT_EQ(divided.optimizer, whole.optimizer / 4);
  EXPECT_EQ(divided.parameters, whole.parameters);
  EXPECT_EQ(divided.gradients, whole.gradients);
}

TEST(Memory, ThatFitsIsFoundFromAPassThatNeedsAConstantAndSomethingForEachSample) {
  MemoryAccount account("cpu", 1000);
  account.take(100, MemoryUse::parameters);
  const auto pass = [&](int64_t samples) {
    account.give_back(50 + 70 * samples, account.take(50 + 70 * samples));
  };
  EXPECT_EQ(samples_that_fit(account, 100, pass), 12);
  EXPECT_EQ(samples_that_fit(account, 13, pass), 12);
  account.set_limit(300);
  EXPECT_EQ(samples_that_fit(account, 3, pass), 2);
  account.set_limit(200);
  EXPECT_EQ(samples_that_fit(account, 3, pass), 0);
  EXPECT_EQ(samples_that_fit(account, 3, [](int64_t) { throw Error("too few"); }), std::nullopt);
}

TEST(Memory, ThatAdmitsNoSampleBesideTheGradientsOfShardsIsSaidToAdmitFewerShards) {
  const std::string several = advice(0, {.batch = 32, .shards = 8, .accumulate = 1});
  EXPECT_NE(several.find("beside the gradients of 8 shards"), std::string::npos) << several;
  EXPECT_NE(several.find("`lockstep fit`"), std::string::npos) << several;
  const std::string one = advice(0, {.batch = 32, .shards = 1, .accumulate = 1});
  EXPECT_EQ(one.find("shards"), std::string::npos) << one;
}

}  // namespace
}  // namespace lockstep::train
