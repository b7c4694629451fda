#include "train/best.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "expect_error.h"
#include "objective/objectives.h"
#include "temporary_folder.h"
#include "train/short_runs.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using objective::Scorecard;
using objective::Totals;
using run::Json;

const std::vector<Metric> kMetrics = {{.name = "accuracy"},
                                      {.name = "error", .better = Metric::Better::lower},
                                      {.name = "table", .shape = {2}}};

// One value of the loss and of both metrics after another; what is noted of each.
std::string noted(const std::string& figure, const std::vector<double>& values, Best& best) {
  const Ranking ranking(figure, {kMetrics[0], kMetrics[1]});
  const Scorecard scorecard({kMetrics[0], kMetrics[1]}, Phase::evaluation);
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    const double v = values[i];
    const std::vector<double> sums = {v, 1, 1, v, 1, v, 1};
    const Totals totals = scorecard.totals(sums, {});
    text += ranking.note(best, static_cast<int64_t>(i) + 1, totals, scorecard) ? "+" : "-";
  }
  return text;
}

TEST(Best, IsTheLowestLossOrTheHighestAccuracy) {
  Best best;
  EXPECT_EQ(noted("loss", {3, 2, 2, 4, 1}, best), "++--+");
  EXPECT_EQ(best.step, 5);
  EXPECT_EQ(best.value, 1);
  EXPECT_EQ(best.evaluations_since, 0);
  best = {};
  EXPECT_EQ(noted("accuracy", {3, 2, 2, 4, 1}, best), "+--+-");
  EXPECT_EQ(best.step, 4);
  EXPECT_EQ(best.evaluations_since, 1);
  best = {};
  EXPECT_EQ(noted("error", {3, 2, 2, 4, 1}, best), "++--+");
}

TEST(Best, IsNeverWhatIsNotANumber) {
  Best best;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(noted("error", {nan, 3, nan, 2}, best), "-+-+");
}

// A mean of no samples is not the lowest loss.
TEST(Best, IsNeverAMeanOfNothing) {
  const std::vector<Metric> metrics = {kMetrics[0], kMetrics[1]};
  const Scorecard scorecard(metrics, Phase::evaluation);
  const std::vector<double> sums = {0, 0, 1, 0, 0, 0, 0};
  for (const char* figure : {"loss", "accuracy", "error"}) {
    Best best;
    EXPECT_FALSE(Ranking(figure, metrics).note(best, 1, scorecard.totals(sums, {}), scorecard));
    EXPECT_EQ(best.evaluations_since, 1);
  }
}

// As after the loss of a worker between an evaluation and the next step.
TEST(Best, CountsAnEvaluationOnceThatIsRepeated) {
  const Ranking ranking("loss", {});
  const Scorecard scorecard({}, Phase::evaluation);
  Best best;
  for (const auto& [step, loss, is_best] :
       {std::tuple(1, 2.0, true), {1, 2.0, true}, {2, 3.0, false}, {2, 3.0, false}}) {
    const std::vector<double> sums = {loss, 1, 1};
    EXPECT_EQ(ranking.note(best, step, scorecard.totals(sums, {}), scorecard), is_best);
  }
  EXPECT_EQ(best.step, 1);
  EXPECT_EQ(best.evaluations_since, 1);
}

TEST(Best, IsReadAsItWasWritten) {
  const Best best = best_from(to_json(
      {.step = 7, .figure = "loss", .value = 0.25, .evaluations_since = 2, .evaluated = 9}));
  EXPECT_EQ(best.step, 7);
  EXPECT_EQ(best.figure, "loss");
  EXPECT_EQ(best.evaluated, 9);
  EXPECT_EQ(best.value, 0.25);
  EXPECT_EQ(best.evaluations_since, 2);
}

TEST(Best, RefusesAFigureThatIsNone) {
  expect_bad_input([] { Ranking("acuracy", kMetrics); },
                   {"train.best_by", "did you mean 'accuracy'", "loss, accuracy, error"});
  expect_bad_input([] { Ranking("table", kMetrics); }, {"train.best_by"});
}

// Too high a learning rate on random labels: the validation loss soon rises.
Recipe overfitting(const TemporaryFolder& folder) {
  Recipe recipe = tiny_recipe(folder);
  recipe.data.hold_out.validation_fraction = 0.25;
  recipe.train.epochs = 30;
  recipe.train.patience = 3;
  recipe.optimizer.lr = 0.1;
  recipe.checkpoint.keep = "best";
  return recipe;
}

std::vector<Json> events_of(const fs::path& run, const std::string& kind) {
  std::vector<Json> found;
  for (const Json& event : run::read_events(run / "events.jsonl"))
    if (event["event"] == kind) found.push_back(event);
  return found;
}

TEST(Patience, EndsTheRunAfterThatManyEpochsWithoutABetterOne) {
  TemporaryFolder folder;
  const Recipe recipe = overfitting(folder);
  const Json end = train(recipe, folder / "run");
  EXPECT_EQ(end["ended_early"], true);
  ASSERT_LT(end["epochs"], 30);
  const std::vector<Json> epochs = events_of(folder / "run", "epoch");
  EXPECT_EQ(epochs.size(), end["epochs"]);
  const auto lower = [](const Json& a, const Json& b) {
    return a["validation_loss"] < b["validation_loss"];
  };
  const auto lowest = std::ranges::min_element(epochs, lower);
  EXPECT_EQ(epochs.end() - lowest, 4) << "the best, then three that are not better";
  EXPECT_EQ(end["best"]["figure"], "validation_loss");
  EXPECT_EQ(end["best"]["value"], (*lowest)["validation_loss"]);
  EXPECT_EQ(end["best"]["step"], (*lowest)["step"]);
  EXPECT_EQ(end["steps"], epochs.back()["step"]);

  Recipe until_best = recipe;
  until_best.train.patience = 0;
  until_best.train.steps = (*lowest)["step"];
  train(until_best, folder / "best");
  const auto weights = [](const fs::path& path) {
    return run::digest(run::read_safetensors(path).tensors);
  };
  EXPECT_EQ(weights(folder / "run/best.safetensors"), weights(folder / "best/model.safetensors"));
  EXPECT_NE(weights(folder / "run/best.safetensors"), weights(folder / "run/model.safetensors"));
}

TEST(Patience, EndsAtTheSameStepWhereverTheRunWasStopped) {
  TemporaryFolder folder;
  const Recipe recipe = overfitting(folder);
  const Json whole = train(recipe, folder / "whole");
  const int64_t steps = whole["steps"];
  for (const int64_t stop : {int64_t{1}, steps / 2, steps - 1}) {
    const fs::path out = folder / ("stop" + std::to_string(stop));
    EXPECT_EQ(train_until(recipe, out, {.stop_at_step = stop}).kind, run::Outcome::Kind::stopped);
    const Json resumed = train(recipe, out);
    EXPECT_EQ(resumed["model_sha256"], whole["model_sha256"]) << "stopped at " << stop;
    EXPECT_EQ(resumed["best"], whole["best"]) << "stopped at " << stop;
  }
  EXPECT_EQ(train(recipe, folder / "whole")["model_sha256"], whole["model_sha256"]) << "again";
}

TEST(Patience, LooksAtTheTestSplitWhereThereIsNoOther) {
  TemporaryFolder folder;
  Recipe recipe = overfitting(folder);
  recipe.data.hold_out.validation_fraction = 0;
  recipe.train.best_by = "accuracy";
  const Json end = train(recipe, folder / "run");
  EXPECT_EQ(end["best"]["figure"], "test_accuracy");
  EXPECT_FALSE(end.contains("validation_loss"));
}

TEST(ValidationSplit, IsEvaluatedAfterEveryEpochAndTheTestSplitOnlyAtTheEnd) {
  TemporaryFolder folder;
  Recipe recipe = tiny_recipe(folder);
  recipe.data.hold_out.validation_fraction = 0.25;
  const Json end = train(recipe, folder / "run");
  for (const Json& epoch : events_of(folder / "run", "epoch")) {
    EXPECT_TRUE(epoch.contains("validation_accuracy"));
    EXPECT_FALSE(epoch.contains("test_accuracy"));
  }
  for (const char* key : {"validation_loss", "validation_accuracy", "test_loss", "test_accuracy"})
    EXPECT_TRUE(end.contains(key)) << key;
  EXPECT_EQ(end["ended_early"], false);
  const std::vector<Json> tables = events_of(folder / "run", "evaluation");
  ASSERT_EQ(tables.size(), 4U);
  EXPECT_EQ(tables[0]["split"], "validation");
  EXPECT_EQ(tables[3]["split"], "test");
  EXPECT_EQ(events_of(folder / "run", "start").at(0)["validation_samples"], 9);
}

TEST(Mixup, TrainsAndEvaluatesOnWholeLabels) {
  TemporaryFolder folder;
  Recipe recipe = tiny_recipe(folder);
  const Json plain = train(recipe, folder / "plain");
  recipe.data.mixup = 0.4;
  const Json mixed = train(recipe, folder / "mixed");
  EXPECT_NE(mixed["model_sha256"], plain["model_sha256"]);
  EXPECT_TRUE(mixed.contains("test_accuracy"));
  EXPECT_EQ(train(recipe, folder / "again")["model_sha256"], mixed["model_sha256"]);
}

// Counts samples, whatever their targets are.
struct Counting : Objective {
  std::vector<Field> outputs() const override { return {{"scores", Type::f32, {3}}}; }
  Loss loss(const Tensors& outputs, const Batch& batch) override {
    return {outputs.only().sum(), static_cast<double>(batch.samples)};
  }
};

TEST(Mixup, IsRefusedWhereTheObjectiveExpectsLabels) {
  objective::objectives().add(
      {"counting", "", [](const ObjectiveOptions&) -> std::unique_ptr<Objective> {
         return std::make_unique<Counting>();
       }});
  TemporaryFolder folder;
  Recipe recipe = tiny_recipe(folder);
  recipe.objective.name = "counting";
  recipe.data.mixup = 0.4;
  expect_bad_input([&] { train(recipe, folder / "run"); },
                   {"data.mixup", "'counting'", "takes_probabilities"});
}

}  // namespace
}  // namespace lockstep::train
