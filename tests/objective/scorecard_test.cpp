#include "objective/scorecard.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "expect_error.h"
#include "objective/objectives.h"

namespace lockstep::objective {
namespace {

Fields labelled(int64_t classes) {
  Fields fields{{{"x", Type::f32, {4}}}, {{"y", Type::i64, {}}}};
  for (int64_t i = 0; i < classes; ++i) fields.targets[0].categories.push_back(std::to_string(i));
  return fields;
}

Batch batch_of(const std::vector<int64_t>& labels) {
  const auto samples = static_cast<int64_t>(labels.size());
  return {.inputs = torch::zeros({samples, 4}),
          .targets = torch::tensor(labels, torch::kInt64),
          .samples = samples,
          .items = samples};
}

// What an objective makes of one batch.
struct Scored {
  Totals totals;
  Json figures;
  Json tables;
};

Scored score(Objective& objective, const Tensors& outputs, const Batch& batch, Phase phase) {
  const Scorecard card(objective.metrics(), phase);
  std::vector<double> sums(card.sums()), maxima(card.maxima()), tables(card.tables());
  card.score(objective, outputs, batch, objective.loss(outputs, batch), {sums, maxima, tables});
  Scored scored{.totals = card.totals(sums, maxima)};
  scored.figures = card.figures(scored.totals, "");
  scored.tables = card.table_figures(tables);
  return scored;
}

// Says what it is told to.
struct Told : Objective {
  std::vector<Metric> declared;
  std::vector<Measurement> measured;
  double weight = 1;

  std::vector<Field> outputs() const override { return {}; }
  Loss loss(const Tensors& outputs, const Batch&) override {
    return {outputs.only().sum(), weight};
  }
  std::vector<Metric> metrics() const override { return declared; }
  std::vector<Measurement> measure(const Tensors&, const Batch&, Phase) override {
    return measured;
  }
};

TEST(Classification, GivesAccuracyTopFiveAndTheConfusionOfClasses) {
  const auto objective = make_objective("classification", {.fields = labelled(6)});
  // Sample 0 is right, sample 1 is wrong but its class comes last of all six.
  const torch::Tensor scores =
      torch::tensor({{9.0F, 1.0F, 2.0F, 3.0F, 4.0F, 5.0F}, {9.0F, 1.0F, 2.0F, 3.0F, 4.0F, 5.0F}});
  const auto [totals, figures, tables] =
      score(*objective, scores, batch_of({0, 1}), Phase::evaluation);
  EXPECT_EQ(figures["accuracy"], 0.5);
  EXPECT_EQ(figures["top5_accuracy"], 0.5);
  EXPECT_EQ(tables["class_accuracy"][0], 1.0);
  EXPECT_EQ(tables["class_accuracy"][1], 0.0);
  EXPECT_EQ(tables["confusion"][1][0], 1.0) << "row: what it is, column: what it was taken for";
  EXPECT_EQ(totals.samples, 2);
}

TEST(Classification, MeasuresOnlyWhatIsCheapWhileTraining) {
  const auto objective = make_objective("classification", {.fields = labelled(6)});
  const Scored scored = score(*objective, torch::zeros({2, 6}), batch_of({0, 1}), Phase::training);
  EXPECT_EQ(scored.figures.size(), 2U) << scored.figures;
  EXPECT_TRUE(scored.tables.empty());
}

TEST(Classification, WeighsClassesAsTorchDoes) {
  const auto objective = make_objective(
      "classification",
      {.fields = labelled(3), .options = Options({{"class_weights", "[1.0, 2.0, 5.0]"}})});
  torch::manual_seed(3);
  const torch::Tensor scores = torch::randn({4, 3});
  const Batch batch = batch_of({0, 2, 1, 2});
  const Loss loss = objective->loss(scores, batch);
  const torch::Tensor expected =
      torch::cross_entropy_loss(scores, batch.targets.only(), torch::tensor({1.0F, 2.0F, 5.0F}));
  EXPECT_EQ(loss.weight, 13);
  EXPECT_NEAR(loss.sum.item<double>() / loss.weight, expected.item<double>(), 1e-6);
}

TEST(Classification, SmoothsLabelsAsTorchDoes) {
  const auto objective = make_objective(
      "classification", {.fields = labelled(3), .options = Options({{"label_smoothing", "0.1"}})});
  torch::manual_seed(3);
  const torch::Tensor scores = torch::randn({4, 3});
  const Batch batch = batch_of({0, 2, 1, 2});
  const Loss loss = objective->loss(scores, batch);
  const torch::Tensor expected =
      torch::cross_entropy_loss(scores, batch.targets.only(), {}, at::Reduction::Mean, -100, 0.1);
  EXPECT_NEAR(loss.sum.item<double>() / loss.weight, expected.item<double>(), 1e-6);
}

// Whole labels, written as probabilities, must give the same loss; other ones a mixture of losses.
TEST(Classification, TakesProbabilitiesInPlaceOfLabels) {
  torch::manual_seed(3);
  const torch::Tensor scores = torch::randn({4, 3});
  const Batch first = batch_of({0, 2, 1, 2});
  const Batch second = batch_of({1, 2, 0, 0});
  const auto one_hot = [](const Batch& batch) {
    return torch::one_hot(batch.targets.only(), 3).to(torch::kFloat32);
  };
  for (const char* option : {"", "label_smoothing", "class_weights"}) {
    Options options;
    if (std::string(option) == "label_smoothing") options = Options({{option, "0.1"}});
    if (std::string(option) == "class_weights") options = Options({{option, "[1.0, 2.0, 5.0]"}});
    const auto objective =
        make_objective("classification", {.fields = labelled(3), .options = options});
    ASSERT_TRUE(objective->takes_probabilities());
    Batch mixed = first;
    mixed.targets = 0.75 * one_hot(first) + 0.25 * one_hot(second);
    const Loss loss = objective->loss(scores, mixed);
    const Loss a = objective->loss(scores, first);
    const Loss b = objective->loss(scores, second);
    EXPECT_NEAR(loss.weight, 0.75 * a.weight + 0.25 * b.weight, 1e-6) << option;
    EXPECT_NEAR(loss.sum.item<double>(), 0.75 * a.sum.item<double>() + 0.25 * b.sum.item<double>(),
                1e-5)
        << option;
    EXPECT_EQ(score(*objective, scores, mixed, Phase::training).figures["accuracy"],
              score(*objective, scores, first, Phase::training).figures["accuracy"]);
  }
}

TEST(Classification, RefusesDataAndOptionsThatItCannotServe) {
  Fields numbers{{{"x", Type::f32, {4}}}, {{"y", Type::f32, {2}}}};
  expect_bad_input([&] { make_objective("classification", {.fields = numbers}); },
                   {"label", "regression", "y.argmax(1)"});
  numbers.targets[0].shape = {1};
  expect_bad_input([&] { make_objective("classification", {.fields = numbers}); },
                   {"y.astype('int64')"});
  numbers.targets[0].shape = {2};
  expect_bad_input(
      [&] {
        make_objective("classification",
                       {.fields = labelled(3), .options = Options({{"class_weights", "[1.0]"}})});
      },
      {"class_weights", "1 weights", "3 classes"});
  expect_bad_input(
      [&] {
        make_objective("classification",
                       {.fields = labelled(3), .options = Options({{"smoothing", "0.1"}})});
      },
      {"smoothing", "label_smoothing"});
  const auto objective = make_objective("classification", {.fields = labelled(3)});
  expect_bad_input([&] { objective->loss(torch::zeros({2, 4}), batch_of({0, 1})); },
                   {"2 x 4", "2 x 3"});
}

TEST(Regression, TakesTargetsOfAnyShape) {
  const Fields fields{{{"x", Type::f32, {4}}}, {{"y", Type::f32, {2, 3}}}};
  const auto objective = make_objective("regression", {.fields = fields});
  const Batch batch = {
      .inputs = torch::zeros({5, 4}), .targets = torch::zeros({5, 2, 3}), .samples = 5, .items = 5};
  const Scored scored = score(*objective, torch::full({5, 6}, 2.0F), batch, Phase::evaluation);
  EXPECT_EQ(scored.figures["loss"], 4);
  EXPECT_EQ(scored.figures["mean_absolute_error"], 2);
  EXPECT_EQ(scored.figures["largest_error"], 2);
}

TEST(Scorecard, KeepsTheLargestOfAMaximum) {
  Told objective;
  objective.declared = {{.name = "peak", .combine = Metric::Combine::max}};
  Totals all;
  for (const double peak : {3.0, 7.0, 5.0}) {
    objective.measured = {Measurement(peak)};
    all += score(objective, torch::ones({1}), batch_of({0}), Phase::training).totals;
  }
  EXPECT_EQ(Scorecard(objective.metrics(), Phase::training).figures(all, "")["peak"], 7);
}

TEST(Scorecard, RefusesWhatAnObjectiveDidNotPromise) {
  Told objective;
  objective.declared = {{.name = "error"}};
  const auto try_it = [&] { score(objective, torch::ones({1}), batch_of({0}), Phase::training); };
  expect_bad_input(try_it, {"returned 0 measurements", "expected 1"});
  objective.measured = {Measurement(1.0)};
  expect_bad_input(try_it, {"'error'", "0 weights"});
  objective.measured = {{1.0, 1.0}};
  objective.weight = -1;
  expect_bad_input(try_it, {"weight of -1"});
  objective.weight = std::nan("");
  expect_bad_input(try_it, {"weight of nan"});
}

TEST(Scorecard, RefusesATableOfNumbersThatAreNoCounts) {
  Told objective;
  objective.declared = {{.name = "table",
                         .combine = Metric::Combine::sum,
                         .when = Metric::When::evaluation,
                         .shape = {2}}};
  objective.measured = {Measurement(torch::tensor({1.0, 0.5}))};
  expect_bad_input([&] { score(objective, torch::ones({1}), batch_of({0}), Phase::evaluation); },
                   {"'table'", "0.5", "expected integers"});
}

TEST(Scorecard, RefusesMetricsThatCannotBe) {
  const auto try_it = [](std::vector<Metric> metrics) {
    return [=] { Scorecard card(metrics, Phase::evaluation); };
  };
  expect_bad_input(try_it({{.name = ""}}), {"expected a name"});
  for (const char* name : {"two words", "a\nb", "\xff", "a_name_that_is_too_long_for_a_column"})
    expect_bad_input(try_it({{.name = name}}), {"expected a name"});
  expect_bad_input(try_it({{.name = "a"}, {.name = "a"}}), {"'a'", "already used"});
  expect_bad_input(try_it({{.name = "step"}}), {"'step'", "already used"});
  expect_bad_input(try_it({{.name = "table", .shape = {3}}}), {"'table'", "for evaluation only"});
}

TEST(Objectives, AreFoundByNameOrTheNearestIsNamed) {
  expect_bad_input([] { make_objective("clasification", {}); },
                   {"clasification", "did you mean 'classification'?"});
}

}  // namespace
}  // namespace lockstep::objective
