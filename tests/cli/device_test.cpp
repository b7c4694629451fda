// What `lockstep train` promises of devices.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/small_training.h"
#include "lockstep_command.h"
#include "scoped_variable.h"
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

TEST_F(Devices, ThatAreVirtualHaveTheBitsOfTheCpuAfterFiftySteps) {
  for (const std::string model : {"convnet", "resnet20"}) {
    const auto fifty = [&](const std::string& out, Words flags) {
      flags.insert(flags.end(), {"--model", model, "--steps", "50"});
      return digest(model + out, flags);
    };
    EXPECT_EQ(fifty("virtual", {"--device", "virtual", "--workers", "2"}), fifty("cpu", {}))
        << model;
  }
}

TEST_F(Devices, ThatAreAsynchronousEndWithTheModelOfTheCpu) {
  const auto flags = [](Words more) {
    more.insert(more.end(), {"--device", "virtual", "--set", "device.asynchronous=true"});
    return more;
  };
  const std::string cpu = digest("cpu", {});
  EXPECT_EQ(digest("1", flags({})), cpu);
  EXPECT_EQ(digest("3", flags({"--workers", "3", "--device-memory", "64MiB"})), cpu);
  EXPECT_EQ(digest("elastic", flags({"--workers", "2", "--elastic"})), cpu);
  const CommandResult refused = train("refused", {"--set", "device.asynchronous=true"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("only for device.kind = virtual"), std::string::npos) << refused.err;
}

TEST_F(Devices, GoOnWithARunFromItsCheckpoint) {
  const std::string whole = digest("whole", {"--device", "virtual"});
  const CommandResult part = train("part", {"--device", "virtual", "--stop-at-step", "3"});
  EXPECT_EQ(part.exit_code, 0) << part.err;
  EXPECT_EQ(digest("part", {"--device", "virtual", "--resume", "--workers", "2"}), whole);
}

TEST_F(Devices, WithLittleMemoryEvaluateInPiecesAndEndWithTheSameModel) {
  const auto end = [&](const std::string& out, Words flags) {
    flags.insert(flags.end(), {"--set", "data.test_fraction=0.5"});
    const CommandResult outcome = train(out, flags);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  };
  const nlohmann::json whole = end("whole", {});
  const int64_t peak = whole.at("memory").at("peak");
  const auto expect_same = [&](const nlohmann::json& other) {
    EXPECT_EQ(other.at("model_sha256"), whole.at("model_sha256"));
    EXPECT_EQ(other.at("test_accuracy"), whole.at("test_accuracy"));
    EXPECT_NEAR(other.at("test_loss"), whole.at("test_loss"), 1e-5);
    EXPECT_LT(other.at("memory").at("peak"), peak);
  };
  expect_same(end("pieces", {"--set", "evaluate.batch=4"}));
  expect_same(end("limited", {"--device-memory", std::to_string(peak - 1)}));
}

TEST_F(Devices, WithTooLittleMemorySayWhatTheyHaveAndWhatNeedsLess) {
  for (const std::string kind : {"cpu", "virtual"}) {
    const std::string name = kind == "cpu" ? "cpu" : "virtual:0";
    const auto expect_failure = [&](const std::string& memory, const Words& parts) {
      const CommandResult outcome = train(
          kind + memory, {"--device", kind, "--device-memory", memory, "--set", "train.shards=1"});
      EXPECT_EQ(outcome.exit_code, 1);
      for (const std::string& part : parts)
        EXPECT_NE(outcome.err.find(part), std::string::npos) << part << ": " << outcome.err;
    };
    expect_failure("100KiB", {name + " has 100 KiB of memory", "parameters and buffers 1.0 MiB",
                              "it would need 32 devices of this size, but has 11 layers"});
    expect_failure("5MiB", {name + " is out of memory", "of 5.0 MiB",
                            "this was step 0, in a pass over 12 samples", "train.accumulate"});
  }
}

TEST_F(Devices, ThatCannotBeHadAreRefused) {
  const auto refuses = [&](const Words& flags, const std::string& why) {
    const CommandResult outcome = train("refused", flags);
    return outcome.exit_code == 2 && outcome.err.find(why) != std::string::npos;
  };
  EXPECT_TRUE(refuses({"--device", "virtuel"}, "did you mean 'virtual'"));
  EXPECT_TRUE(refuses({"--device", "virtual", "--device-memory", "much"}, "much"));
  EXPECT_TRUE(refuses({"--devices", "virtual:4"}, "device.kind is cpu"));
  EXPECT_TRUE(refuses({"--device", "virtual", "--devices", "virtual:2", "--workers", "3"},
                      "3 workers are to start on this host"));
}

TEST_F(Devices, AreTakenInTurnAndDoNotChangeTheModel) {
  const auto device_of = [&](const std::string& out, Words flags) {
    flags.insert(flags.end(), {"--device", "virtual"});
    const CommandResult outcome = train(out, flags);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const auto end = nlohmann::json::parse(outcome.out);
    return end.at("memory").at("device").get<std::string>() + " " +
           end.at("model_sha256").get<std::string>();
  };
  const std::string model = digest("cpu", {});
  EXPECT_EQ(device_of("all", {}), "virtual:0 " + model);
  EXPECT_EQ(device_of("four", {"--devices", "virtual:4"}), "virtual:0 " + model);
  EXPECT_EQ(device_of("listed", {"--devices", "virtual:3,1"}), "virtual:3 " + model);
  const ScopedVariable visible("LOCKSTEP_VISIBLE_DEVICES", "5,3");
  EXPECT_EQ(device_of("visible", {}), "virtual:5 " + model);
  EXPECT_EQ(device_of("both", {"--devices", "virtual:3,5"}), "virtual:3 " + model);
}

TEST_F(Devices, OfCudaAreRefusedWithWhatLibTorchWasBuiltWith) {
  const CommandResult outcome = train("cuda", {"--device", "cuda"});
  if (outcome.exit_code == 0) GTEST_SKIP() << "this machine has CUDA devices";
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("device.kind = \"cuda\": LibTorch "), std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace lockstep::cli
