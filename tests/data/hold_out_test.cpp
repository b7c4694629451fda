#include "data/hold_out.h"

#include <algorithm>
#include <numeric>

#include "data/some_datasets.h"
#include "expect_error.h"

namespace lockstep::data {
namespace {

// Rows of the sample's number and its negative, labelled by the number.
std::shared_ptr<const ComputedDataset> numbered_rows(int64_t size) {
  return computed(
      {{{"x", Type::f32, {2}}}, {{"number", Type::i64}}}, size,
      [](int64_t index, const Sample& to) {
        to.as<float>(0)[0] = static_cast<float>(index);
        to.as<float>(0)[1] = static_cast<float>(-index);
        to.as<int64_t>(1)[0] = index;
      },
      [](int64_t index) { return 100 + index; });
}

// Without a test split of its own.
Splits divided(std::shared_ptr<const Dataset> all, double test_fraction, int64_t seed,
               double validation_fraction = 0) {
  return hold_out({std::move(all), nullptr}, {test_fraction, validation_fraction, seed});
}

void expect_labels_match(const Dataset& dataset) {
  const std::vector<float> values = read_field<float>(dataset, 0);
  const std::vector<int64_t> labels = read_labels(dataset);
  ASSERT_EQ(values.size(), labels.size() * 2);
  for (size_t i = 0; i < labels.size(); ++i) {
    EXPECT_EQ(values[2 * i], static_cast<float>(labels[i]));
    EXPECT_EQ(values[2 * i + 1], static_cast<float>(-labels[i]));
    EXPECT_EQ(dataset.items(static_cast<int64_t>(i)), 100 + labels[i]);
  }
}

TEST(HoldOut, SplitsEverySampleIntoExactlyOnePart) {
  const Splits splits = divided(numbered_rows(100), 0.2, 7);
  EXPECT_EQ(splits.test->size(), 20);
  EXPECT_EQ(splits.train->size(), 80);
  EXPECT_EQ(splits.train->fields(), numbered_rows(1)->fields());
  EXPECT_EQ(splits.test->fields(), numbered_rows(1)->fields());
  expect_labels_match(*splits.train);
  expect_labels_match(*splits.test);
  std::vector<int64_t> all = read_labels(*splits.train);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  const std::vector<int64_t> test = read_labels(*splits.test);
  EXPECT_TRUE(std::is_sorted(test.begin(), test.end()));
  all.insert(all.end(), test.begin(), test.end());
  std::sort(all.begin(), all.end());
  std::vector<int64_t> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(HoldOut, NamesASampleByItsNumberInTheDataSet) {
  const auto torn = computed(
      {{{"x"}}, {}}, 100,
      [](int64_t index, const Sample&) {
        if (index == 77) throw std::runtime_error("torn out");
      },
      [](int64_t index) { return index == 77 ? -1 : 1; });
  const Splits splits = divided(torn, 0.2, 7, 0.3);
  const SampleRoom room(torn->fields());
  int errors = 0;
  for (const auto& split : {splits.train, splits.test, splits.validation})
    for (int64_t i = 0; i < split->size(); ++i) try {
        write_sample(*split, i, 0, room.memory());
        EXPECT_EQ(split->items(i), 1);
      } catch (const BadInput& error) {
        EXPECT_STREQ(error.what(), "data: sample 77 cannot be read: torn out");
        expect_bad_input([&] { split->items(i); }, {"sample 77 counts as -1 items"});
        ++errors;
      }
  EXPECT_EQ(errors, 1);
}

TEST(HoldOut, ChoosesBySeedAlone) {
  EXPECT_EQ(read_labels(*divided(numbered_rows(100), 0.2, 7).test),
            read_labels(*divided(numbered_rows(100), 0.2, 7).test));
  EXPECT_NE(read_labels(*divided(numbered_rows(100), 0.2, 7).test),
            read_labels(*divided(numbered_rows(100), 0.2, 8).test));
}

TEST(HoldOut, ChoosesTheSamplesThatEarlierRunsHaveHeldOut) {
  EXPECT_EQ(read_labels(*divided(numbered_rows(40), 0.2, 1).test),
            (std::vector<int64_t>{1, 5, 9, 25, 26, 27, 29, 30}));
  EXPECT_EQ(read_labels(*divided(numbered_rows(40), 0.2, 7).test),
            (std::vector<int64_t>{1, 2, 16, 18, 19, 21, 27, 30}));
}

TEST(HoldOut, TakesAValidationSplitOutOfWhatTheTestSplitLeaves) {
  const Splits without = divided(numbered_rows(100), 0.2, 7);
  EXPECT_EQ(without.validation, nullptr);
  const Splits splits = divided(numbered_rows(100), 0.2, 7, 0.25);
  EXPECT_EQ(read_labels(*splits.test), read_labels(*without.test));
  EXPECT_EQ(splits.validation->size(), 20);
  EXPECT_EQ(splits.train->size(), 60);
  expect_labels_match(*splits.validation);
  std::vector<int64_t> rest = read_labels(*splits.train);
  const std::vector<int64_t> validation = read_labels(*splits.validation);
  rest.insert(rest.end(), validation.begin(), validation.end());
  std::sort(rest.begin(), rest.end());
  EXPECT_EQ(rest, read_labels(*without.train));
  EXPECT_NE(read_labels(*divided(numbered_rows(100), 0.2, 8, 0.25).validation), validation);
}

TEST(HoldOut, LeavesSplitsAloneThatADataSetHas) {
  const Splits own =
      hold_out({numbered_rows(10), numbered_rows(3), numbered_rows(4)}, {0.5, 0.5, 1});
  EXPECT_EQ(own.train->size(), 10);
  EXPECT_EQ(own.test->size(), 3);
  EXPECT_EQ(own.validation->size(), 4);
  EXPECT_EQ(own.warnings,
            (std::vector<std::string>{
                "data.test_fraction has no effect: the data have a test split of their own",
                "data.validation_fraction has no effect: the data have a validation split of their "
                "own"}));
  const Splits validated = hold_out({numbered_rows(10), numbered_rows(3)}, {0.5, 0.2, 1});
  EXPECT_EQ(validated.train->size(), 8);
  EXPECT_EQ(validated.test->size(), 3);
  EXPECT_EQ(validated.validation->size(), 2);
  EXPECT_TRUE(hold_out({numbered_rows(10), numbered_rows(3)}, {}).warnings.empty());
}

TEST(HoldOut, ReadsNoSampleBeforeItIsAskedFor) {
  const auto all = numbered_rows(100);
  const Splits splits = divided(all, 0.2, 7);
  EXPECT_EQ(all->writes(), 0);
  read_labels(*splits.test);
  EXPECT_EQ(all->writes(), 20);
}

TEST(HoldOut, GivesDigestsThatDifferBySeedAndSplit) {
  const Splits splits = divided(numbered_rows(100), 0.2, 7);
  const Splits same = divided(numbered_rows(100), 0.2, 7);
  const Splits other = divided(numbered_rows(100), 0.2, 8);
  EXPECT_EQ(splits.train->digest(), same.train->digest());
  EXPECT_EQ(splits.test->digest(), same.test->digest());
  EXPECT_NE(splits.train->digest(), splits.test->digest());
  EXPECT_NE(splits.train->digest(), other.train->digest());
  EXPECT_NE(splits.test->digest(), other.test->digest());
}

TEST(HoldOut, NeverTakesNoneOrAll) {
  EXPECT_EQ(divided(numbered_rows(3), 0.001, 1).test->size(), 1);
  EXPECT_EQ(divided(numbered_rows(3), 0.999, 1).train->size(), 1);
}

TEST(HoldOut, RefusesAFractionThatLeavesNothing) {
  for (const double fraction : {0.0, 1.0, -0.5, 2.0})
    expect_bad_input([&] { divided(numbered_rows(10), fraction, 1); }, {"data.test_fraction"});
  expect_bad_input([] { divided(numbered_rows(1), 0.5, 1); }, {"at least 2"});
  expect_bad_input([] { divided(numbered_rows(9), 0.5, 1, -1); }, {"data.validation_fraction -1"});
  expect_bad_input([] { divided(numbered_rows(2), 0.5, 1, 0.5); }, {"no validation split"});
}

}  // namespace
}  // namespace lockstep::data
