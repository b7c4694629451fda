// What `lockstep train` promises of devices.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/small_training.h"
#include "lockstep_command.h"
#include "temporary_folder.h"

namespace lockstep::cli {
namespace {

class Devices : public ::testing::Test {
 protected:
  Devices() { write_images(folder_.path(), 60); }

  CommandResult train(const std::string& out, const Words& flags) const {
    Words words = {"--shards", "6", "--epochs", "2", "--set", "train.kernels=torch"};
    words.insert(words.end(), flags.begin(), flags.end());
    return lockstep_command(train_on(folder_.path(), out, words));
  }

  std::string digest(const std::string& out, const Words& flags) const {
    const CommandResult outcome = train(out, flags);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    if (outcome.exit_code != 0) return "";
    return nlohmann::json::parse(outcome.out).at("model_sha256");
  }

  TemporaryFolder folder_;
};

TEST_F(Devices, ThatAreVirtualEndWithTheModelOfTheCpuOnAnyNumberOfWorkers) {
  const std::string cpu = digest("cpu", {});
  EXPECT_EQ(digest("1", {"--device", "virtual"}), cpu);
  EXPECT_EQ(digest("3", {"--device", "virtual", "--workers", "3", "--device-memory", "64MiB"}),
            cpu);
  EXPECT_EQ(digest("elastic", {"--device", "virtual", "--workers", "2", "--elastic"}), cpu);
  const Words power_sgd = {
      "--set", "train.compress=power_sgd", "--set", "train.shards=2", "--workers", "2", "--force"};
  Words on_devices = power_sgd;
  on_devices.insert(on_devices.end(), {"--device", "virtual"});
  EXPECT_EQ(digest("hook-virtual", on_devices), digest("hook-cpu", power_sgd));
}

TEST_F(Devices, GoOnWithARunFromItsCheckpoint) {
  const std::string whole = digest("whole", {"--device", "virtual"});
  const CommandResult part = train("part", {"--device", "virtual", "--stop-at-step", "3"});
  EXPECT_EQ(part.exit_code, 0) << part.err;
  EXPECT_EQ(digest("part", {"--device", "virtual", "--resume", "--workers", "2"}), whole);
}

TEST_F(Devices, WithTooLittleMemorySayWhatTheyHaveAndWhatNeedsLess) {
  const auto expect_failure = [&](const std::string& memory, const Words& parts) {
    const CommandResult outcome = train(
        memory, {"--device", "virtual", "--device-memory", memory, "--set", "train.shards=1"});
    EXPECT_EQ(outcome.exit_code, 1);
    for (const std::string& part : parts)
      EXPECT_NE(outcome.err.find(part), std::string::npos) << part << ": " << outcome.err;
  };
  expect_failure("100KiB", {"virtual:0 is out of memory", "of 100 KiB",
                            "parameters and buffers alone take 1.0 MiB"});
  expect_failure("5MiB",
                 {"of 5.0 MiB", "this was step 0, in a shard of 12 samples", "train.accumulate"});
}

TEST_F(Devices, ThatCannotBeHadAreRefused) {
  const auto refuses = [&](const Words& flags, const std::string& why) {
    const CommandResult outcome = train("refused", flags);
    return outcome.exit_code == 2 && outcome.err.find(why) != std::string::npos;
  };
  EXPECT_TRUE(refuses({"--device", "virtuel"}, "did you mean 'virtual'"));
  EXPECT_TRUE(refuses({"--device-memory", "1GiB"}, "only virtual devices have a limit"));
  EXPECT_TRUE(refuses({"--device", "virtual", "--device-memory", "much"}, "much"));
}

}  // namespace
}  // namespace lockstep::cli
