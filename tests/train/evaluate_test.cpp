#include "train/evaluate.h"

#include <gtest/gtest.h>

#include "data/source.h"

namespace lockstep::train {
namespace {

TEST(Evaluate, CountsEverySampleExactlyOnce) {
  const data::Splits splits = data::load({.name = "fashion-mnist"});
  const auto model = model::make_model({.name = "logistic", .input = splits.test.shape});
  const Totals totals = evaluate(*model, splits.test, data::measure_normalization(splits.train),
                                 alone().communicator());
  EXPECT_EQ(totals.samples, 10'000);
  EXPECT_EQ(totals.samples % 256, 16) << "so the last batch is a smaller one";
  EXPECT_TRUE(model->is_training());
}

}  // namespace
}  // namespace lockstep::train
