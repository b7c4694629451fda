// What `lockstep train --stages` promises: the model of one worker with the same shards.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/small_training.h"
#include "lockstep_command.h"
#include "temporary_folder.h"

namespace lockstep::cli {
namespace {

class Stages : public ::testing::Test {
 protected:
  Stages() { write_images(folder_.path(), 60); }

  CommandResult train(const std::string& out, const Words& flags) const {
    Words words = {"--shards", "6", "--epochs", "2"};
    words.insert(words.end(), flags.begin(), flags.end());
    return lockstep_command(train_on(folder_.path(), out, words));
  }

  nlohmann::json result(const std::string& out, const Words& flags) const {
    const CommandResult outcome = train(out, flags);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.exit_code != 0 ? nlohmann::json() : nlohmann::json::parse(outcome.out);
  }
  std::string digest(const std::string& out, const Words& flags) const {
    const nlohmann::json end = result(out, flags);
    return end.is_null() ? "" : end.value("model_sha256", "");
  }

  bool refuses(const Words& flags, const std::string& why) const {
    const CommandResult outcome = train("refused", flags);
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
    return outcome.exit_code == 2;
  }

  TemporaryFolder folder_;
};

TEST_F(Stages, OfAnyNumberAndScheduleEndWithTheModelOfOneWorker) {
  const nlohmann::json alone = result("alone", {});
  const auto expect_same = [&](const std::string& out, const Words& flags) {
    const nlohmann::json other = result(out, flags);
    for (const char* key : {"model_sha256", "test_accuracy", "train_loss", "test_loss"})
      EXPECT_EQ(other.value(key, nlohmann::json()), alone[key]) << out << ": " << key;
  };
  expect_same("two", {"--workers", "2", "--stages", "2"});
  expect_same("three", {"--workers", "3", "--stages", "3", "--schedule", "gpipe"});
  expect_same("grid", {"--workers", "4", "--stages", "2", "--transport", "tcp"});
  expect_same("turns", {"--workers", "2", "--stages", "2", "--schedule", "sequential"});
  expect_same("interleaved", {"--workers", "2", "--stages", "2", "--schedule", "interleaved"});
  expect_same("split", {"--workers", "3", "--stages", "3", "--split", "2,layer3.0"});
}

TEST_F(Stages, OnDevicesOfOneWorkerEndWithTheSameModel) {
  const Words torch = {"--set", "train.kernels=torch"};
  const auto with = [&](Words flags) {
    flags.insert(flags.end(), torch.begin(), torch.end());
    return flags;
  };
  const std::string alone = digest("alone", torch);
  EXPECT_EQ(digest("cpu", with({"--stages", "3"})), alone);
  EXPECT_EQ(digest("virtual", with({"--stages", "4", "--device", "virtual", "--devices",
                                    "virtual:4", "--device-memory", "64MiB"})),
            alone);
  EXPECT_EQ(digest("asynchronous", with({"--stages", "2", "--device", "virtual", "--set",
                                         "device.asynchronous=true"})),
            alone);
  EXPECT_EQ(digest("workers", with({"--workers", "2", "--stages", "2", "--device", "virtual"})),
            alone);
}

TEST_F(Stages, OfEveryModelEndWithTheSameModelWithEveryKeyOfGradients) {
  for (const Words& flags : std::vector<Words>{{"--model", "convnet"},  // draws random numbers
                                               {"--model", "mlp", "--set", "optimizer.name=adamw"},
                                               {"--set", "optimizer.clip_norm=0.1"},
                                               {"--accumulate", "2"},
                                               {"--set", "train.compress=bf16"},
                                               {"--set", "data.mixup=0.2"}}) {
    Words staged = flags;
    staged.insert(staged.end(), {"--workers", "2", "--stages", "2"});
    const std::string name = flags.back();
    EXPECT_EQ(digest(name + "-staged", staged), digest(name, flags)) << name;
  }
}

TEST_F(Stages, ThatComputeActivationsAgainEndWithTheSameModelInLessMemory) {
  const Words few = {"--set", "evaluate.batch=1"};
  Words recompute = {"--set", "parallel.recompute=true"};
  recompute.insert(recompute.end(), few.begin(), few.end());
  const nlohmann::json kept = result("kept", few), again = result("again", recompute);
  EXPECT_EQ(again["model_sha256"], kept["model_sha256"]);
  EXPECT_LT(again["memory"]["activations"], kept["memory"]["activations"]);
  Words staged = {"--workers", "2", "--stages", "2"};
  staged.insert(staged.end(), recompute.begin(), recompute.end());
  EXPECT_EQ(digest("staged", staged), kept["model_sha256"]);
  Words dropping = {"--model", "convnet"};
  const std::string dropped = digest("dropped", dropping);
  dropping.insert(dropping.end(), recompute.begin(), recompute.end());
  EXPECT_EQ(digest("dropped-again", dropping), dropped);
}

TEST_F(Stages, MayBeOthersWhenARunIsResumed) {
  const std::string alone = digest("alone", {});
  const Words staged = {"--workers", "2", "--stages", "2"};
  for (const bool first_staged : {true, false}) {
    const std::string out = first_staged ? "staged-first" : "staged-then";
    Words begin = {"--stop-at-step", "3"}, then = {"--resume"};
    Words& with_stages = first_staged ? begin : then;
    with_stages.insert(with_stages.end(), staged.begin(), staged.end());
    if (first_staged) then.insert(then.end(), {"--stages", "1"});
    ASSERT_EQ(train(out, begin).exit_code, 0);
    EXPECT_EQ(digest(out, then), alone) << out;
  }
}

TEST_F(Stages, ThatCannotBeAreRefused) {
  EXPECT_TRUE(refuses({"--workers", "3", "--stages", "2"}, "expected a multiple of 2, or 1"));
  EXPECT_TRUE(refuses({"--stages", "12"}, "a model of 11 layers cannot be divided into 12"));
  EXPECT_TRUE(refuses({"--stages", "2", "--split", "0"}, "part 0 would have no layers"));
  EXPECT_TRUE(refuses({"--stages", "3", "--split", "4,4"}, "part 1 would have no layers"));
  EXPECT_TRUE(refuses({"--stages", "2", "--split", "layer2"}, "'layer2' is no layer"));
  EXPECT_TRUE(refuses({"--stages", "2", "--split", "3,5"}, "which makes 3 parts"));
  EXPECT_TRUE(refuses({"--stages", "2", "--schedule", "gpip"}, "did you mean 'gpipe'"));
  EXPECT_TRUE(refuses({"--stages", "2", "--elastic"}, "cannot join or leave"));
  EXPECT_TRUE(refuses({"--workers", "14", "--stages", "2"}, "7 pipelines of 2 stages"));
}

TEST_F(Stages, WithTooLittleMemorySayWhichAndWhatNeedsLess) {
  const CommandResult model = train(
      "model", {"--workers", "2", "--stages", "2", "--device-memory", "100KiB", "--split", "9"});
  EXPECT_EQ(model.exit_code, 1);
  EXPECT_NE(model.err.find("which computes stage"), std::string::npos) << model.err;
  const CommandResult step =
      train("step", {"--workers", "2", "--stages", "2", "--device-memory", "3MiB", "--split", "9"});
  EXPECT_EQ(step.exit_code, 1);
  EXPECT_NE(step.err.find("which computes stage 0 (layers conv1 to layer3.1)"), std::string::npos)
      << step.err;
}

}  // namespace
}  // namespace lockstep::cli
