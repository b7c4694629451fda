#include "train/evaluate.h"

#include <gtest/gtest.h>

#include "data/training_data.h"
#include "objective/objectives.h"
#include "some_models.h"
#include "train/short_runs.h"

namespace lockstep::train {
namespace {

TEST(Evaluate, CountsEverySampleExactlyOnce) {
  const auto data = data::load_training_data({.name = "fashion-mnist"}, 64, 1);
  const Fields fields = data->splits.test->fields();
  const auto model = some_model("logistic", fields.inputs[0].shape);
  const auto objective = objective::make_objective("classification", {.fields = fields});
  const objective::Scorecard scorecard(objective->metrics(), Phase::evaluation);
  World world = alone();
  collective::Communicator& group = world.communicator();
  const Evaluation evaluation =
      evaluate(whole(model, group), *objective, scorecard, data->splits.test, group);
  EXPECT_EQ(evaluation.totals.samples, 10'000);
  EXPECT_EQ(evaluation.totals.samples % 256, 16) << "so the last batch is a smaller one";
  EXPECT_TRUE(model->is_training());
  const run::Json confusion = scorecard.table_figures(evaluation.tables)["confusion"];
  double samples = 0;
  for (const auto& row : confusion)
    for (const auto& count : row) samples += count.get<double>();
  EXPECT_EQ(samples, 10'000);
}

// Counts the samples it sees in a buffer.
struct Counter : Model {
  Counter() { seen = register_buffer("seen", torch::zeros({1})); }
  Tensors forward(const Tensors& inputs) override {
    seen += inputs.only().size(0);
    return torch::zeros({inputs.only().size(0), 3});
  }
  torch::Tensor seen;
};

// As a lost worker does, for the others.
struct Failing : Objective {
  std::vector<Field> outputs() const override { return {{"scores", Type::f32, {3}}}; }
  Loss loss(const Tensors&, const Batch&) override { throw Error("lost"); }
};

TEST(Evaluate, LeavesTheModelAsItWasIfItFails) {
  const TemporaryFolder folder;
  const auto data = data::load_training_data(tiny_recipe(folder).data, 4, 1);
  const auto model = std::make_shared<Counter>();
  Failing objective;
  World world = alone();
  collective::Communicator& group = world.communicator();
  const objective::Scorecard scorecard({}, Phase::evaluation);
  EXPECT_THROW(evaluate(whole(model, group), objective, scorecard, data->splits.test, group),
               Error);
  EXPECT_EQ(model->seen.item<float>(), 0);
  EXPECT_TRUE(model->is_training());
}

}  // namespace
}  // namespace lockstep::train
