// What `lockstep train --zero` promises: the model of one worker, of which each worker keeps only
// its share of the optimizer's state.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/small_runs.h"

namespace lockstep::cli {
namespace {

class Zero : public SmallRuns {
 protected:
  static Words zero(int workers, const Words& flags = {}) {
    return joined({"--zero", "--workers", std::to_string(workers)}, flags);
  }
};

TEST_F(Zero, OnAnyNumberOfWorkersEndsWithTheModelOfOneWorker) {
  for (const std::string name : {"sgd", "adamw"}) {
    const Words flags = {"--set", "optimizer.name=" + name};
    const std::string alone = digest(name, flags);
    for (const int workers : {1, 2, 3, 4})
      EXPECT_EQ(digest(name + std::to_string(workers), zero(workers, flags)), alone) << workers;
    EXPECT_EQ(digest(name + "-tcp", zero(3, joined(flags, {"--transport", "tcp"}))), alone);
    EXPECT_EQ(digest(name + "-grid", zero(4, joined(flags, {"--stages", "2"}))), alone);
  }
}

TEST_F(Zero, EndsWithTheSameModelWithEveryKeyOfGradients) {
  for (const Words& flags :
       std::vector<Words>{{"--model", "convnet"},
                          {"--accumulate", "2"},
                          {"--set", "optimizer.clip_norm=0.1"},
                          {"--set", "train.compress=f16"},
                          {"--set", "train.compress=power_sgd", "--set", "train.shards=2"},
                          {"--set", "optimizer.decay_bias_and_norm=false", "--set",
                           "optimizer.weight_decay=0.01"}}) {
    const std::string name = flags[1];
    EXPECT_EQ(digest(name + "-zero", zero(2, flags)),
              digest(name, joined({"--workers", "2"}, flags)))
        << name;
  }
  const Words clipped = {"--set", "optimizer.clip_norm=0.1"};
  EXPECT_EQ(digest("clipped-grid", zero(4, joined(clipped, {"--stages", "2"}))),
            digest("clipped", clipped));
}

TEST_F(Zero, OnVirtualDevicesEndsWithTheSameModel) {
  const Words torch = {"--set", "train.kernels=torch", "--set", "optimizer.name=adamw"};
  const Words device = joined(torch, {"--device", "virtual", "--device-memory", "64MiB"});
  const std::string alone = digest("alone", torch);
  EXPECT_EQ(digest("cpu", zero(3, torch)), alone);
  EXPECT_EQ(digest("virtual", zero(2, device)), alone);
  EXPECT_EQ(digest("grid", zero(4, joined(device, {"--stages", "2"}))), alone);
  EXPECT_EQ(digest("asynchronous", zero(3, joined(device, {"--set", "device.asynchronous=true"}))),
            alone);
  EXPECT_EQ(digest("clipped", zero(2, joined(device, {"--set", "optimizer.clip_norm=0.1"}))),
            digest("clipped-alone", joined(torch, {"--set", "optimizer.clip_norm=0.1"})));
}

TEST_F(Zero, WritesCheckpointsThatAnyNumberOfWorkersResumes) {
  const Words adamw = {"--set", "optimizer.name=adamw"};
  const Words whole = {"--resume", "--set", "parallel.zero=false"};
  const std::string alone = digest("alone", adamw);
  const auto stopped = [&](const std::string& out, const Words& flags) {
    EXPECT_EQ(train(out, joined(joined(flags, adamw), {"--stop-at-step", "3"})).exit_code, 0);
    std::filesystem::copy(folder_ / out, folder_ / (out + "-copy"),
                          std::filesystem::copy_options::recursive);
  };
  stopped("four", zero(4));
  EXPECT_EQ(digest("four", whole), alone);
  EXPECT_EQ(digest("four-copy", zero(3, {"--resume"})), alone);
  stopped("one", {});
  EXPECT_EQ(digest("one", zero(4, {"--resume"})), alone);
  EXPECT_EQ(digest("one-copy", zero(4, {"--resume", "--stages", "2"})), alone);
  stopped("grid", zero(4, {"--stages", "2"}));
  EXPECT_EQ(digest("grid", zero(3, {"--resume", "--stages", "1"})), alone);
  EXPECT_EQ(digest("grid-copy", joined(whole, {"--stages", "1"})), alone);
}

TEST_F(Zero, DividesTheMemoryOfTheOptimizerByTheNumberOfWorkers) {
  for (const Words& flags :
       std::vector<Words>{{"--set", "optimizer.name=adamw"},
                          {"--device", "virtual", "--device-memory", "64MiB"}}) {
    const auto optimizer_bytes = [&](int workers) {
      return result(flags.back() + std::to_string(workers), zero(workers, flags))
          .at("memory")
          .at("optimizer")
          .get<double>();
    };
    const double alone = optimizer_bytes(1);
    EXPECT_GT(alone, 1e6);
    for (const int workers : {2, 4})
      EXPECT_NEAR(optimizer_bytes(workers) * workers / alone, 1, 0.02) << workers;
  }
}

// Parameters are there twice while they are placed, but gradients are not yet.
TEST_F(Zero, NeedsNoMoreMemoryAtTheStartThanInSteps) {
  const Words mlp = {"--model", "mlp"};
  const auto bytes_at_peak = [&](const std::string& out, const Words& flags, const char* use) {
    return result(out, joined(mlp, flags)).at("memory").at(use).get<double>();
  };
  const double parameters = bytes_at_peak("alone", {}, "optimizer");  // of sgd
  EXPECT_NEAR(bytes_at_peak("four", zero(4), "parameters") / parameters, 1, 0.02);
}

TEST_F(Zero, SendsLessOfGradientsAndTheParametersInstead) {
  const nlohmann::json plain =
      result("plain", {"--workers", "2", "--transport", "tcp"}).at("bytes_by_kind");
  const nlohmann::json divided =
      result("divided", zero(2, {"--transport", "tcp"})).at("bytes_by_kind");
  EXPECT_EQ(plain["parameters"], 0);
  EXPECT_GT(divided["parameters"], 0);
  EXPECT_LT(divided["gradients"], plain["gradients"]);
}

TEST_F(Zero, IsRefusedWhereItCannotBe) {
  EXPECT_TRUE(refuses(zero(2, {"--set", "optimizer.name=lars"}),
                      "optimizer.name = \"lars\" computes the norms of whole layers"));
  EXPECT_TRUE(refuses(zero(2, {"--set", "optimizer.name=lars"}), "use adamw or sgd"));
  EXPECT_TRUE(refuses(zero(2, {"--elastic"}), "each has a share of the optimizer's state"));
}

}  // namespace
}  // namespace lockstep::cli
