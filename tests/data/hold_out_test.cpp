#include "data/hold_out.h"

#include <algorithm>
#include <numeric>

#include "expect_error.h"

namespace lockstep::data {
namespace {

Dataset numbered(int64_t size) {
  Dataset dataset;
  dataset.shape = {2};
  std::vector<float> values;
  for (int64_t i = 0; i < size; ++i) {
    values.push_back(static_cast<float>(i));
    values.push_back(static_cast<float>(-i));
    dataset.labels.push_back(static_cast<int32_t>(i));
  }
  dataset.values = values;
  return dataset;
}

void expect_labels_match(const Dataset& dataset) {
  const auto& values = std::get<std::vector<float>>(dataset.values);
  ASSERT_EQ(values.size(), dataset.labels.size() * 2);
  for (size_t i = 0; i < dataset.labels.size(); ++i) {
    EXPECT_EQ(values[2 * i], static_cast<float>(dataset.labels[i]));
    EXPECT_EQ(values[2 * i + 1], static_cast<float>(-dataset.labels[i]));
  }
}

TEST(HoldOut, SplitsEverySampleIntoExactlyOnePart) {
  const Splits splits = hold_out(numbered(100), 0.2, 7);
  EXPECT_EQ(splits.test.size(), 20);
  EXPECT_EQ(splits.train.size(), 80);
  expect_labels_match(splits.train);
  expect_labels_match(splits.test);
  EXPECT_TRUE(std::is_sorted(splits.train.labels.begin(), splits.train.labels.end()));
  std::vector<int32_t> all = splits.train.labels;
  all.insert(all.end(), splits.test.labels.begin(), splits.test.labels.end());
  std::sort(all.begin(), all.end());
  std::vector<int32_t> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(HoldOut, ChoosesBySeedAlone) {
  EXPECT_EQ(hold_out(numbered(100), 0.2, 7).test.labels,
            hold_out(numbered(100), 0.2, 7).test.labels);
  EXPECT_NE(hold_out(numbered(100), 0.2, 7).test.labels,
            hold_out(numbered(100), 0.2, 8).test.labels);
}

TEST(HoldOut, NeverTakesNoneOrAll) {
  EXPECT_EQ(hold_out(numbered(3), 0.001, 1).test.size(), 1);
  EXPECT_EQ(hold_out(numbered(3), 0.999, 1).train.size(), 1);
}

TEST(HoldOut, RefusesAFractionThatLeavesNothing) {
  for (const double fraction : {0.0, 1.0, -0.5, 2.0})
    expect_bad_input([&] { hold_out(numbered(10), fraction, 1); }, {"data.test_fraction"});
  expect_bad_input([] { hold_out(numbered(1), 0.5, 1); }, {"at least 2"});
}

}  // namespace
}  // namespace lockstep::data
