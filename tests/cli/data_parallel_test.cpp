// What `lockstep train --parallel dp` promises: the model of one worker, by one worker on several
// devices.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/small_runs.h"
#include "scoped_variable.h"

namespace lockstep::cli {
namespace {

class DataParallelRuns : public SmallRuns {
 protected:
  static Words torch(const Words& flags = {}) {
    return joined({"--set", "train.kernels=torch"}, flags);
  }
  static Words dp(int devices, const Words& flags = {}) {
    return torch(joined({"--parallel", "dp", "--device", "virtual", "--devices",
                         "virtual:" + std::to_string(devices)},
                        flags));
  }
  static Words asynchronous(int devices, const Words& flags = {}) {
    return dp(devices, joined({"--set", "device.asynchronous=true"}, flags));
  }

  nlohmann::json first_event(const std::string& out) const {
    std::ifstream events(folder_ / out / "events.jsonl");
    std::string line;
    std::getline(events, line);
    return nlohmann::json::parse(line);
  }
};

TEST_F(DataParallelRuns, OnAnyNumberOfDevicesEndWithTheModelOfOneWorker) {
  const std::string alone = digest("alone", torch());
  for (const int devices : {1, 2, 3, 4}) {
    EXPECT_EQ(digest("inlined" + std::to_string(devices), dp(devices)), alone) << devices;
    EXPECT_EQ(digest("asynchronous" + std::to_string(devices), asynchronous(devices)), alone)
        << devices;
  }
  EXPECT_EQ(digest("ddp", torch({"--parallel", "ddp", "--device", "virtual", "--workers", "2"})),
            alone);
}

TEST_F(DataParallelRuns, EndWithTheSameModelWithEveryKeyOfAStep) {
  for (const Words& flags :
       std::vector<Words>{{"--model", "convnet"},  // which has dropout
                          {"--accumulate", "2"},
                          {"--set", "train.shards=3"},   // on two devices
                          {"--set", "train.shards=12"},  // more than the last batch has samples
                          {"--set", "optimizer.clip_norm=0.1"},
                          {"--set", "optimizer.name=adamw"},
                          {"--set", "train.compress=f16"},
                          {"--set", "parallel.recompute=true"}}) {
    const std::string name = flags[1];
    const Words brief = joined(flags, {"--steps", "6"});  // with a smaller batch, and one after it
    EXPECT_EQ(digest(name + "-dp", asynchronous(2, brief)), digest(name, torch(brief))) << name;
  }
}

TEST_F(DataParallelRuns, GoOnWithRunsOfWorkersAndTheReverse) {
  const std::string alone = digest("alone", torch());
  const Words virtual_devices = {"--device", "virtual"};
  EXPECT_EQ(train("dp", dp(3, {"--stop-at-step", "3"})).exit_code, 0);
  EXPECT_EQ(
      digest("dp", joined(virtual_devices, {"--resume", "--parallel", "ddp", "--workers", "2"})),
      digest("whole", torch(virtual_devices)));
  EXPECT_EQ(train("ddp", torch({"--device", "virtual", "--workers", "2", "--stop-at-step", "3"}))
                .exit_code,
            0);
  EXPECT_EQ(digest("ddp", dp(2, {"--resume"})), alone);
}

TEST_F(DataParallelRuns, ReportWhatDevicesCopyAndNeed) {
  const nlohmann::json end = result("mlp", asynchronous(3, {"--model", "mlp"}));
  const nlohmann::json start = first_event("mlp");
  EXPECT_EQ(start["parallel"], "dp");
  EXPECT_EQ(start["devices"], nlohmann::json({"virtual:0", "virtual:1", "virtual:2"}));
  // Once in every step to each of two devices, and back from each of four shards.
  const int64_t parameters = 4 * start["parameters"].get<int64_t>();
  const int64_t steps = end["steps"];
  const nlohmann::json bytes = end["bytes_between_devices"];
  EXPECT_EQ(bytes["replicated"], parameters * 2 * steps);
  EXPECT_EQ(bytes["reduced"], parameters * 4 * steps);
  EXPECT_EQ(bytes["gathered"], 0);
  EXPECT_GT(bytes["scattered"], 0);
  ASSERT_EQ(end["memory_by_device"].size(), 3U);
  const auto peak = [&](int device) {
    return end["memory_by_device"][static_cast<size_t>(device)]["peak"].get<int64_t>();
  };
  EXPECT_GT(peak(0), peak(1));
  EXPECT_EQ(peak(1), peak(2));
  EXPECT_GE(end["memory_by_device"][0]["optimizer"], parameters);
  EXPECT_EQ(end["memory_by_device"][1]["optimizer"], 0);
}

TEST_F(DataParallelRuns, ReturnBuffersToTheFirstDevice) {
  const nlohmann::json bytes =
      result("resnet", dp(2, {"--steps", "3"})).at("bytes_between_devices");
  EXPECT_GT(bytes["gathered"], 0);
  EXPECT_GT(bytes["replicated"], bytes["gathered"]);
}

TEST_F(DataParallelRuns, UseTheDevicesThatAreVisible) {
  const ScopedVariable visible("LOCKSTEP_VISIBLE_DEVICES", "5,3");
  result("visible", torch({"--parallel", "dp", "--device", "virtual", "--steps", "1"}));
  EXPECT_EQ(first_event("visible")["devices"], nlohmann::json({"virtual:5", "virtual:3"}));
}

TEST_F(DataParallelRuns, AreRefusedWhereTheyCannotBe) {
  EXPECT_TRUE(refuses({"--parallel", "dp"}, "device.kind = \"cpu\" is one"));
  EXPECT_TRUE(refuses({"--parallel", "dp", "--device", "virtual"}, "Give --devices virtual:2"));
  EXPECT_TRUE(refuses(dp(2, {"--workers", "2"}), "is one worker with several devices"));
  EXPECT_TRUE(refuses(dp(2, {"--stages", "2"}), "parallel.stages = 2 (--stages) divides it"));
  EXPECT_TRUE(refuses(dp(2, {"--zero"}), "divides the optimizer's state among several"));
  EXPECT_TRUE(refuses(dp(2, {"--elastic"}), "no worker can join or leave"));
  EXPECT_TRUE(refuses(dp(2, {"--set", "train.compress=power_sgd"}), "needs one shard per worker"));
  EXPECT_TRUE(refuses(dp(7), "there are 7 devices (--devices), but only 6 shards"));
  const CommandResult outcome =
      lockstep_command(joined({"train", "--batch", "auto", "--device-memory", "64MiB"}, dp(2)));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("--batch auto: not with parallel.mode = \"dp\""), std::string::npos)
      << outcome.err;
}

TEST_F(DataParallelRuns, AreRefusedOnDevicesOfTwoKinds) {
  const Words mixed = {"--parallel", "dp", "--device", "virtual", "--devices", "virtual:0,cuda:1"};
  EXPECT_TRUE(refuses(mixed, "all are of one kind"));
  EXPECT_TRUE(refuses({"--parallel", "dp", "--device", "virtual", "--devices", "cuda:0,1"},
                      "add --device cuda"));
}

TEST_F(DataParallelRuns, OfPipelinesNeedStages) {
  EXPECT_TRUE(refuses({"--parallel", "pipeline"}, "by --stages 2 or more"));
  const Words stages = {"--stages", "2", "--workers", "2"};
  EXPECT_EQ(digest("pipeline", joined(stages, {"--parallel", "pipeline"})), digest("alone", {}));
  EXPECT_TRUE(refuses({"--parallel", "dpp"}, "there are: ddp, dp, pipeline"));
}

TEST_F(DataParallelRuns, WithLittleMemoryNameTheDevice) {
  const CommandResult outcome = train("little", dp(2, {"--device-memory", "2MiB"}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("virtual:0 has 2.0 MiB of memory"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace lockstep::cli
