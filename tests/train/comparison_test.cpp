#include "run/comparison.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "expect_error.h"
#include "train/short_runs.h"

namespace lockstep::train {
namespace {

using run::compare_runs;
using run::Comparison;
using Result = Comparison::Result;

Recipe with_digests(const TemporaryFolder& folder) {
  Recipe recipe = tiny_recipe(folder);
  recipe.log.every_steps = 1;
  recipe.log.digest_every_steps = 2;
  return recipe;
}

TEST(CompareRuns, FindsTwoRunsOfOneRecipeTheSame) {
  const TemporaryFolder folder;
  const Recipe recipe = with_digests(folder);
  train(recipe, folder / "a");
  train(recipe, folder / "b", {.stop_at_step = 7});
  EXPECT_EQ(compare_runs(folder / "a", folder / "b").result, Result::unfinished);
  train(recipe, folder / "b");
  const Comparison comparison = compare_runs(folder / "a", folder / "b");
  EXPECT_EQ(comparison.result, Result::same);
  EXPECT_TRUE(comparison.causes.empty());
  EXPECT_FALSE(comparison.parting);
  EXPECT_FALSE(comparison.first_other_loss);
  EXPECT_FALSE(comparison.differ());
  EXPECT_EQ(comparison.digests_compared, 8) << "steps 0, 2, ... 14";
}

TEST(CompareRuns, NamesTheKeyThatDiffersAndWhereTheModelsPart) {
  const TemporaryFolder folder;
  Recipe recipe = with_digests(folder);
  train(recipe, folder / "a");
  recipe.optimizer.lr = 0.02;
  train(recipe, folder / "b");
  const Comparison comparison = compare_runs(folder / "a", folder / "b");
  EXPECT_EQ(comparison.result, Result::other);
  ASSERT_EQ(comparison.causes.size(), 1);
  EXPECT_TRUE(has(comparison.causes[0], "optimizer.lr: 0.01 in A, 0.02 in B"))
      << comparison.causes[0];
  ASSERT_TRUE(comparison.parting);
  EXPECT_EQ(comparison.parting->last_equal_step, 0);
  EXPECT_EQ(comparison.parting->step, 2);
  EXPECT_FALSE(comparison.parting->tensors.empty());
  EXPECT_EQ(comparison.first_other_loss, 2) << "step 1's loss is that of the initial weights";
}

TEST(CompareRuns, PartAtOnceWithAnotherSeed) {
  const TemporaryFolder folder;
  Recipe recipe = with_digests(folder);
  train(recipe, folder / "a");
  recipe.train.seed = 2;
  train(recipe, folder / "b");
  const Comparison comparison = compare_runs(folder / "a", folder / "b");
  ASSERT_TRUE(comparison.parting);
  EXPECT_EQ(comparison.parting->step, 0);
  EXPECT_FALSE(comparison.parting->last_equal_step);
}

TEST(CompareRuns, FindsUnfinishedRunsToDifferByTheirLossesAlone) {
  const TemporaryFolder folder;
  Recipe recipe = with_digests(folder);
  recipe.log.digest_every_steps = 0;
  train(recipe, folder / "a", {.stop_at_step = 3});
  recipe.train.seed = 2;
  train(recipe, folder / "b", {.stop_at_step = 3});
  const Comparison comparison = compare_runs(folder / "a", folder / "b");
  EXPECT_EQ(comparison.result, Result::unfinished);
  EXPECT_FALSE(comparison.parting);
  EXPECT_EQ(comparison.first_other_loss, 1);
  EXPECT_TRUE(comparison.differ());
}

TEST(CompareRuns, TellsThatTheDataDiffers) {
  const TemporaryFolder folder, other;
  Recipe recipe = with_digests(folder);
  train(recipe, folder / "a");
  with_digests(other);
  std::fstream x(other / "x.npy", std::ios::binary | std::ios::in | std::ios::out);
  x.seekp(-4, std::ios::end);
  x.write("\0\0\0\x41", 4);
  x.close();
  recipe.data.name = "npy:" + other.path().string();
  train(recipe, folder / "b");
  bool told = false;
  for (const std::string& cause : compare_runs(folder / "a", folder / "b").causes)
    told = told || has(cause, "data_sha256");
  EXPECT_TRUE(told);
}

TEST(CompareRuns, RefusesAFolderWithoutARun) {
  const TemporaryFolder folder;
  expect_bad_input([&] { compare_runs(folder.path(), folder.path()); }, {"contains no run"});
}

}  // namespace
}  // namespace lockstep::train
