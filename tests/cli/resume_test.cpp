// What `lockstep train --resume` makes of runs that have ended, and of changed recipes.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/small_training.h"
#include "lockstep_command.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Labels that have nothing to do with images: the validation loss soon rises.
class Resumed : public testing::Test {
 protected:
  Resumed() { write_images(folder_.path(), 60); }

  CommandResult start(const std::string& out, const Words& flags) const {
    Words words = {"--set", "model.name=mlp", "--set", "data.validation_fraction=0.2"};
    words.insert(words.end(), flags.begin(), flags.end());
    return lockstep_command(train_on(folder_.path(), out, words));
  }
  CommandResult resume(const std::string& out, const Words& flags) const {
    Words words = {"train", "--resume", "--json", "--out", (folder_ / out).string()};
    words.insert(words.end(), flags.begin(), flags.end());
    return lockstep_command(words);
  }
  static Json end(const CommandResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(result.out);
  }
  static void expect_refused(const CommandResult& result, const std::string& why) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.err.find(why), std::string::npos) << result.err;
  }

  const TemporaryFolder folder_;
};

TEST_F(Resumed, AFinishedRunGoesOnByForceWithEpochsThatChangeItsSchedule) {
  const Words cosine = {"--set", "schedule.name=cosine", "--epochs", "1"};
  EXPECT_EQ(end(start("run", cosine))["epochs"], 1);
  expect_refused(resume("run", {"--epochs", "2"}), "depend on the number of steps");
  EXPECT_EQ(end(resume("run", {"--epochs", "2", "--force"}))["epochs"], 2);
  expect_refused(resume("run", {"--lr", "0.5", "--force"}), "the run is finished");
}

TEST_F(Resumed, ARunThatEndedEarlyNeedsMorePatienceAndNotMoreEpochs) {
  const Words flags = {"--lr", "0.1", "--epochs", "12", "--set", "train.patience=2"};
  const Json early = end(start("run", flags));
  ASSERT_EQ(early["ended_early"], true);
  expect_refused(resume("run", {"--epochs", "20"}), "more epochs change nothing");
  const Json longer = end(resume("run", {"--set", "train.patience=4"}));
  EXPECT_GT(longer["steps"], early["steps"]);
  Words patient = flags;
  patient.back() = "train.patience=4";
  EXPECT_EQ(longer["model_sha256"], end(start("patient", patient))["model_sha256"]);
}

// An evaluation in the middle of an epoch, at the end of the shorter run, must not count.
TEST_F(Resumed, ARunWithMoreStepsEndsLikeOneThatHadThemFromTheStart) {
  const Words flags = {"--lr", "0.1", "--set", "train.patience=2"};
  Words shorter = flags, longer = flags;
  shorter.insert(shorter.end(), {"--steps", "6"});
  longer.insert(longer.end(), {"--steps", "60"});
  end(start("run", shorter));
  const Json resumed = end(resume("run", {"--steps", "60"}));
  const Json whole = end(start("whole", longer));
  for (const char* key : {"model_sha256", "steps", "best", "train_loss"})
    EXPECT_EQ(resumed[key], whole[key]) << key;
}

TEST_F(Resumed, AnotherFigureForgetsTheBestEpochByTheFormerOne) {
  end(start("run", {"--lr", "0.1", "--epochs", "2"}));
  const Json by_accuracy =
      end(resume("run", {"--epochs", "3", "--set", "train.best_by=accuracy", "--force"}));
  EXPECT_LE(by_accuracy["best"]["value"], 1);
  EXPECT_EQ(by_accuracy["best"]["epoch"], 3);
}

TEST_F(Resumed, TheBestWeightsAreWrittenOrMissed) {
  const Words flags = {"--lr", "0.1", "--epochs", "1"};
  end(start("run", flags));
  EXPECT_FALSE(fs::exists(folder_ / "run/best.safetensors"));
  end(resume("run", {"--epochs", "2", "--set", "checkpoint.keep=best"}));
  EXPECT_TRUE(fs::exists(folder_ / "run/best.safetensors"));
  const Json end_of_run = end(resume("run", {"--epochs", "9", "--set", "checkpoint.keep=best"}));
  ASSERT_LT(end_of_run["best"]["step"], end_of_run["steps"]);
  fs::remove(folder_ / "run/best.safetensors");
  const CommandResult more = resume("run", {"--epochs", "10", "--set", "checkpoint.keep=best"});
  EXPECT_NE(more.err.find("best.safetensors is missing"), std::string::npos) << more.err;
}

TEST_F(Resumed, ARunNeedsItsInitialWeightsOnlyWithoutACheckpoint) {
  end(start("first", {"--steps", "1"}));
  const std::string weights = (folder_ / "first").string();  // its model.safetensors
  const Words flags = {"--weights", weights, "--steps", "4"};
  const Json whole = end(start("whole", flags));
  Words stopped = flags;
  stopped.insert(stopped.end(), {"--stop-at-step", "2"});
  ASSERT_EQ(start("cut", stopped).exit_code, 0);
  ASSERT_EQ(start("lost", stopped).exit_code, 0);
  fs::remove(folder_ / "first/model.safetensors");
  EXPECT_EQ(end(resume("cut", {}))["model_sha256"], whole["model_sha256"]);
  fs::remove_all(folder_ / "lost/checkpoints");
  expect_refused(resume("lost", {}), "has no checkpoint to resume from");
  expect_refused(start("new", flags), "first/model.safetensors");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

}  // namespace
}  // namespace lockstep::cli
