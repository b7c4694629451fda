#include "recipe/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "expect_error.h"
#include "lockstep/error.h"
#include "recipe_text.h"
#include "temporary_folder.h"

namespace lockstep {
namespace {

TEST(Recipe, ReadsWhatItSays) {
  const Recipe recipe = read_text(
      "[data]\nname = \"mnist\"\nflip = true\n"
      "[train]\nbatch = 64\n[optimizer]\nlr = 1\n"
      "[schedule]\nname = \"step\"\nmilestones = [80, 120.5]\n");
  EXPECT_EQ(recipe.data.name, "mnist");
  EXPECT_TRUE(recipe.data.augment.flip);
  EXPECT_EQ(recipe.train.batch, 64);
  EXPECT_EQ(recipe.optimizer.lr, 1.0);
  EXPECT_EQ(recipe.schedule.milestones, (std::vector<double>{80, 120.5}));
}

TEST(Recipe, WrittenAndReadAgainIsTheSame) {
  Recipe recipe;
  recipe.data.name = "npy:a \"quoted\" \\ folder\n\x01\x7f\t\xc3\xa9";
  recipe.optimizer.lr = 0.1;
  recipe.optimizer.epsilon = 1e-12;
  recipe.schedule.milestones = {80, 120.25};
  recipe.optimizer.clip_norm = 0.5;
  recipe.train.accumulate = 2;
  recipe.train.compress = "power_sgd";
  const Recipe again = read_text(to_toml(recipe));
  EXPECT_EQ(to_toml(again), to_toml(recipe));
  EXPECT_TRUE(differences(again, recipe).empty());
}

TEST(Recipe, RefusesAnUnknownKeyWithItsLineAndTheNearestOne) {
  const std::string message = refusal_of("[train]\nepochs = 1\nbacth = 3\n");
  EXPECT_TRUE(has(message, "r.toml:3: unknown key 'train.bacth'")) << message;
  EXPECT_TRUE(has(message, "did you mean 'train.batch'?")) << message;
}

TEST(Recipe, RefusesAKeyOutsideASection) {
  EXPECT_TRUE(has(refusal_of("batch = 3\n"), "is outside a section"));
}

TEST(Recipe, RefusesAValueOfAnotherType) {
  EXPECT_TRUE(has(refusal_of("[train]\nbatch = \"many\"\n"), "expected a whole number"));
  EXPECT_TRUE(has(refusal_of("[train]\nbatch = 1.5\n"), "expected a whole number"));
  EXPECT_TRUE(has(refusal_of("[data]\nflip = 1.5\n"), "expected true or false"));
  EXPECT_TRUE(has(refusal_of("[data]\nname = 3\n"), "expected a text in quotes"));
  EXPECT_TRUE(has(refusal_of("[data]\nflip = 1\n"), "expected true or false"));
  EXPECT_TRUE(has(refusal_of("[optimizer]\nlr = true\n"), "expected a number"));
  EXPECT_TRUE(has(refusal_of("[optimizer]\nlr = 2024-01-01\n"), "expected a number"));
  EXPECT_TRUE(has(refusal_of("[schedule]\nmilestones = [\"a\"]\n"), "a list of numbers"));
}

TEST(Recipe, RefusesANegativeBatch) {
  const std::string message = refusal_of("[train]\nbatch = -3\n");
  EXPECT_TRUE(has(message, "r.toml:2: train.batch = -3: expected at least 1")) << message;
}

TEST(Recipe, RefusesNumbersThatAreNone) {
  EXPECT_TRUE(has(refusal_of("[optimizer]\nlr = nan\n"), "optimizer.lr"));
  EXPECT_TRUE(has(refusal_of("[optimizer]\nlr = inf\n"), "optimizer.lr"));
}

TEST(Recipe, RefusesAnUnknownScheduleOrOptimizer) {
  EXPECT_TRUE(has(refusal_of("[schedule]\nname = \"cosin\"\n"), "did you mean 'cosine'"));
  EXPECT_TRUE(has(refusal_of("[optimizer]\nname = \"adam\"\n"), "did you mean 'adamw'"));
  EXPECT_TRUE(has(refusal_of("[schedule]\nname = \"step\"\n"), "schedule.milestones"));
}

TEST(Recipe, RefusesBrokenTomlWithItsLine) {
  EXPECT_TRUE(has(refusal_of("[train]\nbatch = = 3\n"), "r.toml:2:"));
}

TEST(Recipe, RefusesAnUnknownSectionOrAKeyOfAnotherSection) {
  EXPECT_TRUE(has(refusal_of("[optimiser]\nlr = 1\n"), "[optimiser] (did you mean 'optimizer'?)"));
  EXPECT_TRUE(has(refusal_of("[train]\nbeta1 = 1\n"), "did you mean 'optimizer.beta1'?"));
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
  EXPECT_EQ(without_effect(recipe),
            (std::vector<std::string>{"schedule.warmup_epochs has no effect with one_cycle",
                                      "schedule.milestones has no effect with one_cycle"}));
}

TEST(Recipe, NamesKeysThatTheChosenOptimizerOrScheduleDoesNotUse) {
  Recipe recipe;
  recipe.optimizer = {.name = "sgd", .trust = 0.1, .beta1 = 0.5, .epsilon = 1e-3};
  EXPECT_EQ(without_effect(recipe),
            (std::vector<std::string>{"optimizer.trust has no effect with sgd",
                                      "optimizer.beta1 has no effect with sgd",
                                      "optimizer.epsilon has no effect with sgd"}));
  recipe.optimizer = {.name = "adamw", .clip_norm = 1, .momentum = 0.5, .nesterov = true};
  EXPECT_EQ(without_effect(recipe),
            (std::vector<std::string>{"optimizer.momentum has no effect with adamw",
                                      "optimizer.nesterov has no effect with adamw"}));
  recipe.optimizer = {.name = "lars", .weight_decay = 1, .momentum = 0.5, .trust = 0.1};
  recipe.schedule = {.name = "cosine", .warmup_epochs = 1, .gamma = 0.5, .final_fraction = 0.1};
  EXPECT_EQ(without_effect(recipe),
            std::vector<std::string>{"schedule.gamma has no effect with cosine"});
}

TEST(Recipe, NamesACompressionRankThatNothingUses) {
  Recipe recipe;
  recipe.train.compress_rank = 4;
  recipe.train.compress = "f16";
  EXPECT_EQ(without_effect(recipe),
            std::vector<std::string>{"train.compress_rank has no effect with f16"});
  recipe.train.compress = "power_sgd";
  EXPECT_TRUE(without_effect(recipe).empty());
}

TEST(Recipe, SaysWhoUsesAKeyBesideItsMeaning) {
  const std::string toml = to_toml({});
  EXPECT_TRUE(has(toml, "# adamw, lars or sgd\n")) << toml;
  EXPECT_TRUE(has(toml, "# constant, cosine, one_cycle or step\n")) << toml;
  EXPECT_TRUE(has(toml, "# lars, sgd: coefficient of momentum\n")) << toml;
  EXPECT_TRUE(has(toml, "# coefficient of weight decay\n")) << toml;
  EXPECT_TRUE(has(toml, "# constant, cosine, step: linear warm-up")) << toml;
}

TEST(Recipe, RefusesMilestonesThatDoNotIncrease) {
  EXPECT_EQ(refusal_of_setting("schedule.milestones", "[5, 2]"),
            "schedule.milestones = [5.0, 2.0]: expected increasing numbers, but 2 comes after 5");
  const std::string twice = refusal_of("[schedule]\nname = \"step\"\nmilestones = [3, 3]\n");
  EXPECT_TRUE(has(twice, "r.toml:3: schedule.milestones = [3.0, 3.0]")) << twice;
  EXPECT_NO_THROW(validate(read_text("[schedule]\nname = \"step\"\nmilestones = [2, 5.5]\n")));
}

TEST(Recipe, CutsABatchIntoShardsAndShardsIntoPieces) {
  Recipe recipe;
  recipe.train.batch = 96;
  EXPECT_EQ(shards_of(recipe), 8);
  EXPECT_EQ(pieces_of(recipe), 8);
  recipe.train.accumulate = 3;
  EXPECT_EQ(shards_of(recipe), 8);
  EXPECT_EQ(pieces_of(recipe), 24);
  recipe.train.shards = 2;
  EXPECT_EQ(pieces_of(recipe), 6);
  EXPECT_NO_THROW(validate(recipe));
}

TEST(Recipe, RefusesABatchThatCannotBeCutEvenly) {
  EXPECT_TRUE(
      has(refusal_of("[train]\nbatch = 10\nshards = 3\n"),
          "train.shards = 3: train.batch = 10 cannot be divided into that many equal parts"));
  const std::string message = refusal_of("[train]\nbatch = 128\naccumulate = 3\n");
  EXPECT_TRUE(has(message, "train.accumulate = 3: a shard has 16 samples")) << message;
  EXPECT_TRUE(has(message, "train.batch = 128 in 8 shards")) << message;
  EXPECT_TRUE(has(message, "a multiple of 24")) << message;
  EXPECT_TRUE(has(refusal_of("[train]\naccumulate = 0\n"), "expected at least 1"));
}

TEST(Recipe, RefusesMoreWorkersThanShards) {
  Recipe recipe;
  recipe.train.batch = 24;
  recipe.train.shards = 6;
  recipe.train.accumulate = 2;
  EXPECT_NO_THROW(check_worker_count(recipe, 6));
  const std::string message = message_of<BadInput>([&] { check_worker_count(recipe, 7); });
  EXPECT_TRUE(
      has(message, "--workers 7: the recipe has 6 shards, and each worker needs at least one"))
      << message;
  EXPECT_TRUE(has(message, "a divisor of 12 that is at least 7")) << message;
}

TEST(Recipe, OffersWaysToCompressGradients) {
  Recipe recipe;
  for (const char* name : {"none", "f16", "bf16", "power_sgd"}) {
    set(recipe, "train.compress", name);
    EXPECT_NO_THROW(validate(recipe)) << name;
  }
  EXPECT_TRUE(has(refusal_of_setting("train.compress", "fp16"), "did you mean 'f16'?"));
  EXPECT_TRUE(has(refusal_of_setting("train.compress_rank", "0"), "expected at least 1"));
  EXPECT_TRUE(has(refusal_of_setting("optimizer.clip_norm", "-1"), "expected at least 0"));
}

TEST(Recipe, RefusesAMissingFile) {
  EXPECT_TRUE(has(message_of<BadInput>([] { read_recipe("/no/such.toml"); }), "/no/such.toml"));
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

TEST(Recipe, KeepsCheckpointsByNumberOrByName) {
  const auto kept = [](const std::string& value) {
    Recipe recipe;
    set(recipe, "checkpoint.keep", value);
    const auto [newest, best] = kept_checkpoints(recipe);
    return std::pair(newest, best);
  };
  EXPECT_EQ(kept("last"), std::pair(int64_t{1}, false));
  EXPECT_EQ(kept("best"), std::pair(int64_t{2}, true));
  EXPECT_EQ(kept("17"), std::pair(int64_t{17}, false));
  EXPECT_EQ(read_text("[checkpoint]\nkeep = 3\n").checkpoint.keep, "3");
  EXPECT_EQ(read_text("[checkpoint]\nkeep = \"best\"\n").checkpoint.keep, "best");
  for (const char* wrong : {"0", "-1", "2.5", "bset", "", "9999999999999999999"})
    EXPECT_TRUE(has(message_of<BadInput>([&] { kept(wrong); }), "checkpoint.keep")) << wrong;
  EXPECT_TRUE(has(message_of<BadInput>([&] { kept("bset"); }), "did you mean 'best'"));
  EXPECT_TRUE(has(message_of<BadInput>([] { read_text("[checkpoint]\nkeep = 2.5\n"); }),
                  "checkpoint.keep"));
}

TEST(Recipe, ListsTheKeysThatChangeTheResult) {
  Recipe now, before;
  now.train.batch = 64;
  now.log.every_steps = 1;
  EXPECT_EQ(differences(now, before), std::vector<std::string>{"train.batch: 64, was 128"});
  EXPECT_TRUE(differences(result_values(before), Facts{}).empty())
      << "keys that were not there yet";
  const Facts values = result_values(now);
  const auto is = [](const std::string& name) {
    return [name](const auto& fact) { return fact.first == name; };
  };
  EXPECT_EQ(std::find_if(values.begin(), values.end(), is("train.batch"))->second, "64");
  EXPECT_EQ(std::find_if(values.begin(), values.end(), is("log.every_steps")), values.end());
}

}  // namespace
}  // namespace lockstep
