#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>

#include "expect_error.h"
#include "lockstep/error.h"
#include "run/checkpoints.h"
#include "some_models.h"
#include "temporary_folder.h"
#include "train/short_runs.h"
#include "train/state.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using run::Json;

TEST(Checkpoint, FallsBackToTheOneBeforeATornOne) {
  TemporaryFolder folder;
  const Recipe recipe = tiny_recipe(folder);
  const Json whole = train(recipe, folder / "whole");
  train(recipe, folder / "run", {.stop_at_step = 12});
  const fs::path newest = folder / "run" / "checkpoints" / "step-00000012.safetensors";
  ASSERT_TRUE(fs::exists(newest));
  fs::resize_file(newest, fs::file_size(newest) / 2);
  EXPECT_EQ(train(recipe, folder / "run")["model_sha256"], whole["model_sha256"]);
  const auto events = run::read_events(folder / "run" / "events.jsonl");
  const auto warning =
      std::ranges::find_if(events, [](const Json& e) { return e["event"] == "warning"; });
  ASSERT_NE(warning, events.end());
  EXPECT_NE((*warning)["message"].get<std::string>().find("step-00000012"), std::string::npos);
}

TEST(Checkpoint, LeavesOtherFilesInItsFolderAlone) {
  TemporaryFolder folder;
  const Recipe recipe = tiny_recipe(folder);
  const Json whole = train(recipe, folder / "whole");
  train(recipe, folder / "run", {.stop_at_step = 3});
  const fs::path checkpoints = folder / "run/checkpoints";
  for (const char* name : {"best.safetensors", "zz.safetensors", "step-x.safetensors", "a.part"})
    fs::copy_file(checkpoints / "step-00000003.safetensors", checkpoints / name);
  EXPECT_EQ(train(recipe, folder / "run")["model_sha256"], whole["model_sha256"]);
  for (const char* name : {"best.safetensors", "zz.safetensors", "step-x.safetensors", "a.part"})
    EXPECT_TRUE(fs::exists(checkpoints / name)) << name;
}

TEST(Checkpoint, TheNewestIsTheOneWithTheHighestNumber) {
  TemporaryFolder folder;
  const Recipe recipe = tiny_recipe(folder);
  train(recipe, folder / "run", {.stop_at_step = 3});
  train(recipe, folder / "run", {.stop_at_step = 4});
  const fs::path checkpoints = folder / "run/checkpoints";
  fs::rename(checkpoints / "step-00000003.safetensors", checkpoints / "step-99999999.safetensors");
  fs::rename(checkpoints / "step-00000004.safetensors", checkpoints / "step-100000000.safetensors");
  train(recipe, folder / "run", {.stop_at_step = 5});
  const auto events = run::read_events(folder / "run/events.jsonl");
  const auto resumed = std::ranges::find_if(events.rbegin(), events.rend(),
                                            [](const Json& e) { return e["event"] == "resume"; });
  EXPECT_EQ((*resumed)["step"], 4);
}

TEST(Checkpoint, RefusesToGoOnWithOtherData) {
  TemporaryFolder folder;
  const Recipe recipe = tiny_recipe(folder);
  train(recipe, folder / "run", {.stop_at_step = 3});
  std::fstream file(folder / "x.npy", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-4, std::ios::end);
  file.write("\0\0\0\0", 4);
  file.close();
  expect_bad_input([&] { train(recipe, folder / "run"); }, {"other data", recipe.data.name});
}

TEST(Checkpoint, SaysSoWhenNoneIsWhole) {
  TemporaryFolder folder;
  const Recipe recipe = tiny_recipe(folder);
  train(recipe, folder / "run", {.stop_at_step = 1});
  for (const auto& entry : fs::directory_iterator(folder / "run" / "checkpoints"))
    fs::resize_file(entry.path(), 10);
  EXPECT_NE(message_of<BadInput>([&] {
              train(recipe, folder / "run");
            }).find("all checkpoints are damaged"),
            std::string::npos);
}

TEST(Checkpoint, KeepsOnlyTheNewestTwoAndNoLeftovers) {
  TemporaryFolder folder;
  Recipe recipe = tiny_recipe(folder);
  recipe.checkpoint.every_steps = 2;
  train(recipe, folder / "run", {.stop_at_step = 1});
  folder.write("run/checkpoints/step-00000001.safetensors.99.part", "torn");
  train(recipe, folder / "run");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder / "run" / "checkpoints"))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  EXPECT_EQ(names,
            (std::vector<std::string>{"step-00000014.safetensors", "step-00000015.safetensors"}));
}

TEST(Checkpoint, KeepsAsManyOfTheNewestAsTheRecipeSays) {
  for (const auto& [keep, expected] :
       {std::pair("last", 1), std::pair("best", 2), std::pair("4", 4), std::pair("99", 8)}) {
    TemporaryFolder folder;
    Recipe recipe = tiny_recipe(folder);
    recipe.checkpoint.every_steps = 2;
    recipe.checkpoint.keep = keep;
    train(recipe, folder / "run");
    const fs::directory_iterator files(folder / "run" / "checkpoints");
    EXPECT_EQ(std::distance(begin(files), end(files)), expected) << keep;
    EXPECT_TRUE(fs::exists(folder / "run" / "checkpoints" / "step-00000015.safetensors"));
    EXPECT_EQ(fs::exists(folder / "run" / "best.safetensors"), keep == std::string("best"));
  }
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
  const auto convnet = some_model("convnet", {1, 28, 28});
  const auto wider = some_model("convnet", {3, 28, 28});
  const auto logistic = some_model("logistic", {1, 28, 28});
  save_weights(folder / "w", CollectedState(*convnet).model());
  const std::string before = model_sha256(CollectedState(*wider));
  const std::string shape = message_of<BadInput>(
      [&] { load_weights(run::read_safetensors(folder / "w"), folder / "w", *wider); });
  EXPECT_NE(shape.find("'conv1.weight' is F32 [32, 1, 3, 3], expected F32 [32, 3, 3, 3]"),
            std::string::npos)
      << shape;
  EXPECT_EQ(model_sha256(CollectedState(*wider)), before);
  const std::string missing = message_of<BadInput>(
      [&] { load_weights(run::read_safetensors(folder / "w"), folder / "w", *logistic); });
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

}  // namespace
}  // namespace lockstep::train
