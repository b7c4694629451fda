// evaluate and predict, on runs that the test trains.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/small_training.h"
#include "lockstep_command.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::json;

class Inference : public testing::Test {
 protected:
  Inference() { write_images(folder_.path(), 60); }

  Json trained(const Words& flags = {"--steps", "4"}) {
    const CommandResult outcome = lockstep_command(train_on(folder_.path(), "run", flags));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out);
  }
  std::string run() const { return (folder_ / "run").string(); }
  std::string data() const { return "npy:" + folder_.path().string(); }
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST_F(Inference, EvaluatesAsTheEndOfTheRunDid) {
  const Json end = trained();
  for (const std::string& model :
       {run(), run() + "/model.safetensors", run() + "/checkpoints/step-00000004.safetensors"}) {
    const CommandResult outcome = lockstep_command({"evaluate", model, "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json result = Json::parse(outcome.out);
    EXPECT_EQ(result["loss"], end["test_loss"]);
    EXPECT_EQ(result["accuracy"], end["test_accuracy"]);
    EXPECT_EQ(result["samples"], 6);
  }
  const CommandResult table = lockstep_command({"evaluate", run(), "--split", "train"});
  EXPECT_NE(table.out.find("\naccuracy "), std::string::npos) << table.out;
  EXPECT_NE(table.out.find(" 54 of npy:"), std::string::npos) << table.out;
}

// With another division, samples that the model was trained on would be among those it is tested
// on.
TEST_F(Inference, EvaluatesOnTheSplitsOfTheRun) {
  const Json end = trained({"--steps", "4", "--set", "data.test_fraction=0.2", "--set",
                            "data.validation_fraction=0.25", "--set", "data.hold_out_seed=9"});
  for (const std::string split : {"test", "validation"}) {
    const CommandResult outcome = lockstep_command({"evaluate", run(), "--split", split, "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json result = Json::parse(outcome.out);
    EXPECT_EQ(result["samples"], 12) << split;
    EXPECT_EQ(result["loss"], end[split + "_loss"]) << split;
    EXPECT_EQ(result["split"], split);
    EXPECT_TRUE(result["tables"].contains("confusion"));
    EXPECT_FALSE(result.contains("warning"));
  }
  const CommandResult named =
      lockstep_command({"evaluate", run(), "--data", data() + "/", "--json"});
  EXPECT_EQ(Json::parse(named.out)["loss"], end["test_loss"]);
}

TEST_F(Inference, EvaluatesAllSamplesOfOtherDataWithoutATestSplit) {
  const Json end = trained();
  const TemporaryFolder others;
  write_images(others.path(), 30);
  const std::string other = "npy:" + others.path().string();
  const CommandResult outcome = lockstep_command({"evaluate", run(), "--data", other, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["samples"], 30);
  EXPECT_EQ(Json::parse(outcome.out)["split"], "all");
  const CommandResult table = lockstep_command({"evaluate", run(), "--data", other});
  EXPECT_NE(table.out.find("(all: they have no test split)"), std::string::npos) << table.out;
  const CommandResult divided = lockstep_command(
      {"evaluate", run(), "--data", other, "--set", "data.test_fraction=0.2", "--json"});
  EXPECT_EQ(Json::parse(divided.out)["samples"], 6);
  EXPECT_EQ(Json::parse(divided.out)["split"], "test");
}

TEST_F(Inference, EvaluatesACopyOfItsOwnDataOnTheSplitsOfTheRun) {
  const Json end = trained();
  const TemporaryFolder copy;
  write_images(copy.path(), 60);
  const CommandResult outcome =
      lockstep_command({"evaluate", run(), "--data", "npy:" + copy.path().string(), "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["samples"], 6);
  EXPECT_EQ(Json::parse(outcome.out)["loss"], end["test_loss"]);
}

TEST_F(Inference, WarnsOfDataThatHaveChangedSinceTheyWereTrainedOn) {
  trained();
  write_images(folder(), 61);
  const CommandResult outcome = lockstep_command({"evaluate", run()});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.err.find("has changed since the model was trained"), std::string::npos)
      << outcome.err;
}

TEST_F(Inference, PredictsTheProbabilitiesOfClasses) {
  trained();
  const std::string x = (folder() / "x.npy").string();
  const CommandResult outcome = lockstep_command({"predict", run(), x, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  int64_t samples = 0;
  for (std::string line; std::getline(lines, line); ++samples) {
    const Json sample = Json::parse(line);
    EXPECT_EQ(sample["input"], x + "[" + std::to_string(samples) + "]");
    double sum = 0, best = 0;
    for (const double probability : sample["probabilities"]) {
      sum += probability;
      best = std::max(best, probability);
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_EQ(sample["probability"], best);
    EXPECT_EQ(sample["class"], std::to_string(sample["label"].get<int>()));
  }
  EXPECT_EQ(samples, 60);
  const CommandResult table = lockstep_command({"predict", run(), x, "--top", "3"});
  EXPECT_NE(table.out.find("x.npy[59]  "), std::string::npos) << table.out;
}

TEST_F(Inference, SaysWhatIsWrongWithItsInput) {
  trained();
  EXPECT_TRUE(refuses({"predict", run(), "nothing.npy"}, "nothing.npy: no such file"));
  EXPECT_TRUE(refuses({"evaluate", run(), "--split", "dev"}, "test, validation or train"));
  EXPECT_TRUE(refuses({"evaluate", run(), "--split", "validation"}, "have no validation split"));
  EXPECT_TRUE(refuses({"predict", run(), "x.npy", "--top", "0"}, "--top 0"));
  EXPECT_TRUE(refuses({"predict", folder().string(), "x.npy"}, "has neither model.safetensors"));
  EXPECT_TRUE(refuses({"evaluate", run(), "--split", "both"}, "--split both"));
  EXPECT_TRUE(refuses({"evaluate", run(), "--data", "fashion-mnist"},
                      "input 'image' of the data is 1 x 28 x 28 of u8, but the model was trained "
                      "on 3 x 16 x 16 of f32"));
  const TemporaryFolder others;
  write_images(others.path(), 30);
  std::vector<int64_t> y(30, 7);
  data::write_npy(others / "y.npy", "<i8", "(30,)", std::as_bytes(std::span(y)));
  EXPECT_TRUE(refuses({"evaluate", run(), "--data", "npy:" + others.path().string()},
                      "a class '3', but the model was trained on: 0, 1, 2"));
}

TEST_F(Inference, TakesTheWeightsThatFitAnotherNumberOfClasses) {
  trained();
  const TemporaryFolder others;
  write_images(others.path(), 30);
  std::vector<int64_t> y(30);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int64_t>(i % 5);
  data::write_npy(others / "y.npy", "<i8", "(30,)", std::as_bytes(std::span(y)));
  const Words flags = {"--steps", "1", "--weights", run() + "/model.safetensors"};
  EXPECT_TRUE(refuses(train_on(others.path(), "run", flags), "set model.weights_partial = true"));
  const CommandResult outcome = lockstep_command(train_on(
      others.path(), "run", joined(flags, {"--set", "model.weights_partial=true", "--lr", "0"})));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const std::string name : {"fc.weight", "fc.bias"})
    EXPECT_NE(outcome.err.find("tensor '" + name + "' is F32 [3"), std::string::npos)
        << outcome.err;
  EXPECT_EQ(outcome.err.find("conv1.weight"), std::string::npos) << outcome.err;
}

TEST_F(Inference, GivesAFinishedRunMoreStepsAsIfItHadHadThemFromTheStart) {
  const Json whole =
      Json::parse(lockstep_command(train_on(folder(), "whole", {"--steps", "7"})).out);
  trained({"--steps", "4"});
  const CommandResult longer =
      lockstep_command({"train", "--resume", "--out", run(), "--steps", "7", "--json"});
  ASSERT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_EQ(Json::parse(longer.out)["model_sha256"], whole["model_sha256"]);
  EXPECT_TRUE(
      refuses({"train", "--resume", "--out", run(), "--steps", "5"}, "train.steps: 5, was 7"));
}

TEST_F(Inference, RefusesMoreStepsWhereTheScheduleDependsOnTheirNumber) {
  trained({"--steps", "3", "--set", "schedule.name=cosine"});
  EXPECT_TRUE(
      refuses({"train", "--resume", "--out", run(), "--steps", "7"}, "train.steps: 7, was 3"));
}

TEST_F(Inference, WarnsOfLabelsThatCannotBeLearnt) {
  std::vector<int64_t> y(60, 2);
  data::write_npy(folder() / "y.npy", "<i8", "(60,)", std::as_bytes(std::span(y)));
  const CommandResult outcome = lockstep_command(train_on(folder(), "one", {"--steps", "1"}));
  EXPECT_NE(outcome.err.find("class 2 is the only one in y.npy"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("classes 0, 1: each has no sample"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace lockstep::cli
