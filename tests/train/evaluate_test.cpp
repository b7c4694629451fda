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
  const Evaluation evaluation =
      evaluate(*model, *objective, scorecard, data->splits.test, alone().communicator());
  EXPECT_EQ(evaluation.totals.samples, 10'000);
  EXPECT_EQ(evaluation.totals.samples % 256, 16) << "so the last batch is a smaller one";
  EXPECT_TRUE(model->is_training());
  const run::Json confusion = scorecard.table_figures(evaluation.tables)["confusion"];
  double samples = 0;
  for (const auto& row : confusion)
    for (const auto& count : row) samples += count.get<double>();
  EXPECT_EQ(samples, 10'000);
}

}  // namespace
}  // namespace lockstep::train
