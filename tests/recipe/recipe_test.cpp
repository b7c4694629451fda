#include "recipe/recipe.h"

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "expect_error.h"
#include "lockstep/error.h"
#include "temporary_folder.h"

namespace lockstep {
namespace {

Recipe read_text(const std::string& text) {
  TemporaryFolder folder;
  write_file_atomically(folder / "r.toml", text);
  return read_recipe(folder / "r.toml");
}

std::string refusal_of(const std::string& text) {
  return message_of<BadInput>([&] { validate(read_text(text)); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Recipe, ReadsWhatItSays) {
  const Recipe recipe = read_text(
      "[data]\nname = \"mnist\"\nlayout = \"channels_last\"\n"
      "[train]\nbatch = 64\n[optimizer]\nlr = 1\n"
      "[schedule]\nname = \"step\"\nmilestones = [80, 120.5]\n");
  EXPECT_EQ(recipe.data.source.name, "mnist");
  EXPECT_EQ(recipe.data.source.layout, data::Layout::channels_last);
  EXPECT_EQ(recipe.train.batch, 64);
  EXPECT_EQ(recipe.optimizer.lr, 1.0);
  EXPECT_EQ(recipe.schedule.milestones, (std::vector<double>{80, 120.5}));
}

TEST(Recipe, WrittenAndReadAgainIsTheSame) {
  Recipe recipe;
  recipe.data.source.name = "npy:a \"quoted\" \\ folder\n\x01\x7f\t\xc3\xa9";
  recipe.optimizer.lr = 0.1;
  recipe.optimizer.epsilon = 1e-12;
  recipe.schedule.milestones = {80, 120.25};
  recipe.data.source.layout = data::Layout::channels_last;
  const Recipe again = read_text(to_toml(recipe));
  EXPECT_EQ(to_toml(again), to_toml(recipe));
  EXPECT_TRUE(differences(again, recipe).empty());
}

TEST(Recipe, RefusesAnUnknownKeyWithItsLineAndTheNearestOne) {
  const std::string message = refusal_of("[train]\nepochs = 1\nbacth = 3\n");
  EXPECT_TRUE(contains(message, "r.toml:3: unknown key 'train.bacth'")) << message;
  EXPECT_TRUE(contains(message, "did you mean 'train.batch'?")) << message;
}

TEST(Recipe, RefusesAKeyOutsideASection) {
  EXPECT_TRUE(contains(refusal_of("batch = 3\n"), "stands outside a section"));
}

TEST(Recipe, RefusesAValueOfAnotherType) {
  EXPECT_TRUE(contains(refusal_of("[train]\nbatch = \"many\"\n"), "expected a whole number"));
  EXPECT_TRUE(contains(refusal_of("[train]\nbatch = 1.5\n"), "expected a whole number"));
  EXPECT_TRUE(contains(refusal_of("[data]\nflip = 1.5\n"), "expected true or false"));
  EXPECT_TRUE(contains(refusal_of("[data]\nname = 3\n"), "expected a text in quotes"));
  EXPECT_TRUE(contains(refusal_of("[data]\nlayout = \"first\"\n"), "channels_first"));
  EXPECT_TRUE(contains(refusal_of("[schedule]\nmilestones = [\"a\"]\n"), "a list of numbers"));
}

TEST(Recipe, RefusesANegativeBatch) {
  const std::string message = refusal_of("[train]\nbatch = -3\n");
  EXPECT_TRUE(contains(message, "r.toml:2: train.batch = -3: expected at least 1")) << message;
}

TEST(Recipe, RefusesNumbersThatAreNone) {
  EXPECT_TRUE(contains(refusal_of("[optimizer]\nlr = nan\n"), "optimizer.lr"));
  EXPECT_TRUE(contains(refusal_of("[optimizer]\nlr = inf\n"), "optimizer.lr"));
}

TEST(Recipe, RefusesAnUnknownScheduleOrOptimizer) {
  EXPECT_TRUE(contains(refusal_of("[schedule]\nname = \"cosin\"\n"), "did you mean 'cosine'"));
  EXPECT_TRUE(contains(refusal_of("[optimizer]\nname = \"adam\"\n"), "did you mean 'adamw'"));
  EXPECT_TRUE(contains(refusal_of("[schedule]\nname = \"step\"\n"), "schedule.milestones"));
}

TEST(Recipe, RefusesBrokenTomlWithItsLine) {
  EXPECT_TRUE(contains(refusal_of("[train]\nbatch = = 3\n"), "r.toml:2:"));
}

TEST(Recipe, RefusesAnUnknownSectionOrAKeyOfAnotherSection) {
  EXPECT_TRUE(
      contains(refusal_of("[optimiser]\nlr = 1\n"), "[optimiser] (did you mean 'optimizer'?)"));
  EXPECT_TRUE(contains(refusal_of("[train]\nbeta1 = 1\n"), "did you mean 'optimizer.beta1'?"));
}

TEST(Recipe, RefusesAFolderAndSuggestsTheNearestFile) {
  TemporaryFolder folder;
  expect_bad_input([&] { read_recipe(folder.path()); }, {"is a folder", "--data npy:"});
  folder.write("fashion.toml", "");
  expect_bad_input([&] { read_recipe(folder / "fashoin.toml"); }, {"did you mean 'fashion.toml'?"});
}

TEST(Recipe, NamesSettingsWithoutEffect) {
  Recipe recipe;
  EXPECT_TRUE(without_effect(recipe).empty());
  recipe.schedule = {.name = "one_cycle", .warmup_epochs = 1, .milestones = {2}};
  EXPECT_EQ(without_effect(recipe).size(), 2);
}

TEST(Recipe, RefusesAMissingFile) {
  EXPECT_TRUE(
      contains(message_of<BadInput>([] { read_recipe("/no/such.toml"); }), "/no/such.toml"));
}

TEST(Recipe, IsSetKeyByKeyFromText) {
  Recipe recipe;
  set(recipe, "optimizer.lr", "0.25");
  set(recipe, "model.name", "resnet20");
  set(recipe, "data.flip", "true");
  set(recipe, "schedule.milestones", "[1, 2]");
  EXPECT_EQ(recipe.optimizer.lr, 0.25);
  EXPECT_EQ(recipe.model.name, "resnet20");
  EXPECT_TRUE(recipe.data.augment.flip);
  EXPECT_EQ(recipe.schedule.milestones.size(), 2);
  EXPECT_THROW(set(recipe, "optimizer.lr", "fast"), BadInput);
  EXPECT_THROW(set(recipe, "train.batch", "1\nepochs = 3"), BadInput);
  EXPECT_THROW(set(recipe, "optimiser.lr", "1"), BadInput);
}

TEST(Recipe, ListsTheKeysThatChangeTheResult) {
  Recipe now, before;
  now.train.batch = 64;
  now.log.every_steps = 1;
  EXPECT_EQ(differences(now, before), std::vector<std::string>{"train.batch: 64, was 128"});
}

}  // namespace
}  // namespace lockstep
