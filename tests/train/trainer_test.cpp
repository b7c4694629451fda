#include "train/trainer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "base/atomic_file.h"
#include "lockstep/error.h"
#include "temporary_folder.h"
#include "train/evaluate.h"
#include "train/safetensors.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using observe::Json;

// A short run on real data: 12 steps, of which an epoch has 938.
Recipe short_recipe() {
  Recipe recipe;
  recipe.model.name = "convnet";
  recipe.train.batch = 64;
  recipe.train.steps = 12;
  recipe.log.every_steps = 1;
  return recipe;
}

// A tiny data set of our own, whose epochs are 5 steps of which the last is smaller.
void write_npy(const fs::path& path, const std::string& type, const std::string& shape,
               std::span<const std::byte> data) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(63 - (10 + header.size()) % 64, ' ').append("\n");
  std::ofstream file(path, std::ios::binary);
  file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size() & 255)
       << static_cast<char>(header.size() >> 8) << header;
  file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
}

Recipe tiny_recipe(const TemporaryFolder& folder) {
  std::vector<float> x;
  std::vector<int64_t> y;
  for (int64_t i = 0; i < 40; ++i) {
    y.push_back(i % 3);
    for (int64_t j = 0; j < 6; ++j) x.push_back(static_cast<float>((i * 7 + j * (1 + i % 3)) % 11));
  }
  write_npy(folder / "x.npy", "<f4", "(40, 6)", std::as_bytes(std::span(x)));
  write_npy(folder / "y.npy", "<i8", "(40,)", std::as_bytes(std::span(y)));
  Recipe recipe;
  recipe.data.source.name = "npy:" + folder.path().string();
  recipe.model.name = "mlp";
  recipe.train.batch = 8;
  recipe.train.epochs = 3;
  recipe.optimizer.lr = 0.01;
  return recipe;
}

Json train(const Recipe& recipe, const fs::path& out, Trainer::Limits limits = {}) {
  const RunFolder run =
      fs::exists(out / "recipe.toml") ? RunFolder::open(out) : RunFolder::create(out, recipe);
  observe::EventLog events(run.events());
  return trainer.run(run, events, limits);
}

TEST(Trainer, TwoRunsOfOneRecipeGiveTheSameModel) {
  TemporaryFolder folder;
  const Json a = train(short_recipe(), folder / "a");
  const Json b = train(short_recipe(), folder / "b");
  EXPECT_EQ(a["model_sha256"], b["model_sha256"]);
  EXPECT_EQ(a["train_loss"], b["train_loss"]);
}

TEST(Trainer, AnotherSeedGivesAnotherModel) {
  TemporaryFolder folder;
  Recipe other = short_recipe();
  other.train.seed = 2;
  EXPECT_NE(train(short_recipe(), folder / "a")["model_sha256"],
            train(other, folder / "b")["model_sha256"]);
}

TEST(Trainer, StoppedAnywhereAndResumedGivesTheSameModel) {
  TemporaryFolder folder;
  const Recipe recipe = tiny_recipe(folder);
  const Json whole = train(recipe, folder / "whole");
  for (const int64_t stop : {1, 4, 5, 9, 14}) {
    const fs::path out = folder / ("stop" + std::to_string(stop));
    EXPECT_EQ(train(recipe, out, {.stop_at_step = stop})["event"], "stopped");
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
  const Json stopped = train(tiny_recipe(folder), folder / "run", {.stop = &stop});
  EXPECT_EQ(stopped["event"], "stopped");
  EXPECT_FALSE(fs::is_empty(folder / "run" / "checkpoints"));
}

TEST(Trainer, TellsItsStoryInEvents) {
  TemporaryFolder folder;
  const Recipe recipe = tiny_recipe(folder);
  const Json end = train(recipe, folder / "run");
  const auto events = observe::read_events(folder / "run" / "events.jsonl");
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

TEST(Evaluate, CountsEverySampleExactlyOnce) {
  const data::Splits splits = data::load({.name = "fashion-mnist"});
  const auto model = model::make_model({.name = "logistic", .input = splits.test.shape});
  const Totals totals = evaluate(*model, splits.test, data::measure_normalization(splits.train));
  EXPECT_EQ(totals.samples, 10'000);
  EXPECT_EQ(totals.samples % 256, 16) << "so the last batch is a smaller one";
  EXPECT_TRUE(model->is_training());
}

TEST(Checkpoint, FallsBackToTheOneBeforeATornOne) {
  TemporaryFolder folder;
  const Recipe recipe = tiny_recipe(folder);
  const Json whole = train(recipe, folder / "whole");
  train(recipe, folder / "run", {.stop_at_step = 12});
  const fs::path newest = folder / "run" / "checkpoints" / "step-00000012.safetensors";
  ASSERT_TRUE(fs::exists(newest));
  fs::resize_file(newest, fs::file_size(newest) / 2);
  EXPECT_EQ(train(recipe, folder / "run")["model_sha256"], whole["model_sha256"]);
  const auto events = observe::read_events(folder / "run" / "events.jsonl");
  const auto warning =
      std::ranges::find_if(events, [](const Json& e) { return e["event"] == "warning"; });
  ASSERT_NE(warning, events.end());
  EXPECT_NE((*warning)["message"].get<std::string>().find("step-00000012"), std::string::npos);
}

TEST(Checkpoint, SaysSoWhenNoneIsWhole) {
  TemporaryFolder folder;
  const Recipe recipe = tiny_recipe(folder);
  train(recipe, folder / "run", {.stop_at_step = 1});
  for (const auto& entry : fs::directory_iterator(folder / "run" / "checkpoints"))
    fs::resize_file(entry.path(), 10);
  EXPECT_NE(
      message_of<BadInput>([&] { train(recipe, folder / "run"); }).find("no checkpoint is whole"),
      std::string::npos);
}

TEST(Checkpoint, KeepsOnlyTheNewestTwoAndNoLeftovers) {
  TemporaryFolder folder;
  Recipe recipe = tiny_recipe(folder);
  recipe.checkpoint.every_steps = 2;
  fs::create_directories(folder / "run" / "checkpoints");
  std::ofstream(folder / "run" / "checkpoints" / "step-00000001.safetensors.99.part") << "torn";
  train(recipe, folder / "run");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder / "run" / "checkpoints"))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  EXPECT_EQ(names,
            (std::vector<std::string>{"step-00000014.safetensors", "step-00000015.safetensors"}));
}

// A file-size limit makes the write fail half-way, as a full disk does.
TEST(Checkpoint, OnAFullDiskTheOneBeforeStaysValid) {
  TemporaryFolder folder;
  const Recipe recipe = tiny_recipe(folder);
  const Json whole = train(recipe, folder / "whole");
  train(recipe, folder / "run", {.stop_at_step = 3});
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 100'000, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message =
      message_of<BadInput>([&] { train(recipe, folder / "run", {.stop_at_step = 4}); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(message.find("step-00000004"), std::string::npos) << message;
  EXPECT_EQ(train(recipe, folder / "run")["model_sha256"], whole["model_sha256"]);
}

TEST(Checkpoint, ForAnotherModelNamesTheFirstTensorThatDiffers) {
  TemporaryFolder folder;
  const auto convnet = model::make_model({.name = "convnet", .input = {1, 28, 28}});
  const auto wider = model::make_model({.name = "convnet", .input = {3, 28, 28}});
  const auto logistic = model::make_model({.name = "logistic", .input = {1, 28, 28}});
  save_weights(folder / "w", *convnet);
  const std::string before = model_sha256(*wider);
  const std::string shape = message_of<BadInput>([&] { load_weights(folder / "w", *wider); });
  EXPECT_NE(shape.find("'conv1.weight' is F32 [32, 1, 3, 3], expected F32 [32, 3, 3, 3]"),
            std::string::npos)
      << shape;
  EXPECT_EQ(model_sha256(*wider), before);
  const std::string missing = message_of<BadInput>([&] { load_weights(folder / "w", *logistic); });
  EXPECT_NE(missing.find("'fc.weight'"), std::string::npos) << missing;
}

TEST(Checkpoint, ServesAsInitialWeightsToo) {
  TemporaryFolder folder;
  Recipe recipe = tiny_recipe(folder);
  const Json first = train(recipe, folder / "first");
  recipe.model.weights = (folder / "first" / "checkpoints" / "step-00000015.safetensors").string();
  recipe.optimizer.lr = 0;
  recipe.train.steps = 1;
  EXPECT_EQ(train(recipe, folder / "second")["model_sha256"], first["model_sha256"]);
}

TEST(RunFolder, RefusesAFolderThatHoldsAnotherRun) {
  TemporaryFolder folder;
  { RunFolder::create(folder / "run", {}); }
  EXPECT_NE(message_of<BadInput>([&] { RunFolder::create(folder / "run", {}); }).find("--resume"),
            std::string::npos);
}

TEST(RunFolder, LetsOnlyOneProcessWrite) {
  TemporaryFolder folder;
  const RunFolder held = RunFolder::create(folder / "run", {});
  EXPECT_NE(message_of<BadInput>([&] { RunFolder::open(folder / "run"); }).find("another process"),
            std::string::npos);
}

TEST(RunFolder, RefusesToResumeWhereThereIsNoRun) {
  TemporaryFolder folder;
  EXPECT_THROW(RunFolder::open(folder / "nothing"), BadInput);
}

}  // namespace
}  // namespace lockstep::train
