#include "train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "expect_error.h"
#include "lockstep/error.h"
#include "temporary_folder.h"
#include "train/short_runs.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using run::Json;

TEST(Trainer, TwoRunsOfOneRecipeGiveTheSameModel) {
  TemporaryFolder folder;
  const Recipe recipe = tiny_recipe(folder);
  const Json a = train(recipe, folder / "a");
  const Json b = train(recipe, folder / "b");
  EXPECT_EQ(a["model_sha256"], b["model_sha256"]);
  EXPECT_EQ(a["train_loss"], b["train_loss"]);
}

TEST(Trainer, AnotherSeedGivesAnotherModel) {
  TemporaryFolder folder;
  const Recipe recipe = tiny_recipe(folder);
  Recipe other = recipe;
  other.train.seed = 2;
  EXPECT_NE(train(recipe, folder / "a")["model_sha256"],
            train(other, folder / "b")["model_sha256"]);
}

TEST(Trainer, StoppedAnywhereAndResumedGivesTheSameModel) {
  TemporaryFolder folder;
  const Recipe recipe = tiny_recipe(folder);
  const Json whole = train(recipe, folder / "whole");
  for (const int64_t stop : {1, 4, 5, 9, 14}) {
    const fs::path out = folder / ("stop" + std::to_string(stop));
    EXPECT_EQ(train_until(recipe, out, {.stop_at_step = stop}).kind, run::Outcome::Kind::stopped);
    const Json resumed = train(recipe, out);
    EXPECT_EQ(resumed["model_sha256"], whole["model_sha256"]) << "stopped at " << stop;
    EXPECT_EQ(resumed["train_loss"], whole["train_loss"]) << "stopped at " << stop;
  }
}

TEST(Trainer, AdamWResumesToTheSameModelToo) {
  TemporaryFolder folder;
  Recipe recipe = tiny_recipe(folder);
  recipe.optimizer.name = "adamw";
  const Json whole = train(recipe, folder / "whole");
  train(recipe, folder / "cut", {.stop_at_step = 7});
  EXPECT_EQ(train(recipe, folder / "cut")["model_sha256"], whole["model_sha256"]);
}

TEST(Trainer, StopsWithACheckpointWhenAsked) {
  TemporaryFolder folder;
  const std::atomic<bool> stop = true;
  EXPECT_EQ(train_until(tiny_recipe(folder), folder / "run", {.stop = &stop}).kind,
            run::Outcome::Kind::stopped);
  EXPECT_FALSE(fs::is_empty(folder / "run" / "checkpoints"));
}

TEST(Trainer, WritesWhatHappensAsEvents) {
  TemporaryFolder folder;
  const Recipe recipe = tiny_recipe(folder);
  const Json end = train(recipe, folder / "run");
  const auto events = run::read_events(folder / "run" / "events.jsonl");
  EXPECT_EQ(events.front()["event"], "start");
  EXPECT_EQ(events.back()["event"], "end");
  EXPECT_EQ(std::ranges::count_if(events, [](const Json& e) { return e["event"] == "epoch"; }), 3);
  for (const char* key : {"model_sha256", "steps", "epochs", "train_loss", "test_accuracy",
                          "samples_per_second", "seconds", "workers", "shards", "bytes_sent"})
    EXPECT_TRUE(end.contains(key)) << key;
  for (const char* span : {"data", "forward", "backward", "exchange", "optimizer"})
    EXPECT_TRUE(end["spans"].contains(span)) << span;
}

TEST(Trainer, WritesTheRecipeAsUsed) {
  TemporaryFolder folder;
  const Recipe recipe = tiny_recipe(folder);
  train(recipe, folder / "run");
  EXPECT_TRUE(differences(read_recipe(folder / "run" / "recipe.toml"), recipe).empty());
}

TEST(Trainer, SaysWhenTheLossIsNoLongerANumber) {
  TemporaryFolder folder;
  Recipe recipe = tiny_recipe(folder);
  recipe.optimizer.lr = 1e6;
  recipe.train.epochs = 50;
  const std::string message = message_of<Error>([&] { train(recipe, folder / "run"); });
  EXPECT_NE(message.find("lower optimizer.lr"), std::string::npos) << message;
}

TEST(Trainer, RefusesABatchLargerThanTheDataSet) {
  TemporaryFolder folder;
  Recipe recipe = tiny_recipe(folder);
  recipe.train.batch = 1000;
  const std::string message = message_of<BadInput>([&] { train(recipe, folder / "run"); });
  EXPECT_NE(message.find("1000"), std::string::npos) << message;
}

}  // namespace
}  // namespace lockstep::train
