#include "data/training_data.h"

#include <limits>

#include "data/some_datasets.h"
#include "data/written_files.h"
#include "expect_error.h"
#include "scoped_variable.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

// Twenty images of 1 x 2 x 3 pixels whose values differ, of two classes.
struct OwnImages {
  TemporaryFolder folder;
  DataOptions options{.name = "npy:" + folder.path().string()};

  OwnImages() {
    write("x.npy", 20, 0);
    write_labels("y.npy", std::vector<uint8_t>(20, 1));
  }
  void write(const std::string& name, int64_t count, int first) const {
    std::string pixels;
    for (int64_t i = 0; i < 6 * count; ++i) pixels += static_cast<char>((first + 2 * i) % 256);
    folder.write(name, npy("|u1", {count, 1, 2, 3}, pixels));
  }
  void write_labels(const std::string& name, const std::vector<uint8_t>& labels) const {
    folder.write(name, npy("|u1", {static_cast<int64_t>(labels.size())}, raw(labels)));
  }
  std::shared_ptr<const TrainingData> load(int64_t batch = 4, uint64_t seed = 1) const {
    return load_training_data(options, batch, seed);
  }
  std::string digest() const { return load()->digest; }
};

TEST(LoadSplits, HoldsOutATestSplitWhereThereIsNone) {
  OwnImages images;
  Splits splits = load_splits(images.options);
  EXPECT_EQ(splits.train->size(), 18);
  EXPECT_EQ(splits.test->size(), 2);
  EXPECT_EQ(splits.test->fields(), splits.train->fields());
  images.options.hold_out.test_fraction = 0.25;
  splits = load_splits(images.options);
  EXPECT_EQ(splits.train->size(), 15);
  const auto held_out = read_field<uint8_t>(*splits.test, 0);
  images.options.hold_out.seed = 2;
  EXPECT_NE(read_field<uint8_t>(*load_splits(images.options).test, 0), held_out);
  images.options.hold_out.test_fraction = 1;
  expect_bad_input([&] { load_splits(images.options); }, {"data.test_fraction 1"});
}

TEST(LoadSplits, TakesTheDataSetsOwnTestSplit) {
  const OwnImages images;
  images.write("x_test.npy", 3, 0);
  images.write_labels("y_test.npy", {0, 1, 0});
  const Splits splits = load_splits(images.options);
  EXPECT_EQ(splits.train->size(), 20);
  EXPECT_EQ(splits.test->size(), 3);
}

TEST(LoadTrainingData, ReadsAValidationSplitLikeTheTestSplit) {
  OwnImages images;
  const std::string without = images.digest();
  images.options.hold_out.validation_fraction = 0.25;
  images.options.augment.flip = true;
  images.options.mixup = 0.5;
  const auto data = images.load();
  EXPECT_NE(data->digest, without);
  const Splits plain = load_splits(images.options);
  const Dataset& validation = *data->splits.validation;
  EXPECT_EQ(validation.size(), plain.validation->size());
  EXPECT_EQ(validation.fields(), data->splits.test->fields());
  EXPECT_EQ(read_labels(validation), read_labels(*plain.validation));
  EXPECT_EQ(read_field<float>(validation, 0),
            read_field<float>(*normalized(plain.validation, data->normalization), 0));
}

TEST(LoadTrainingData, LoadsFashionMnistUnlessToldOtherwise) {
  const TemporaryFolder empty;
  const ScopedVariable home("LOCKSTEP_DATA", empty.path());
  const auto data = load_training_data({}, 128, 1);
  EXPECT_EQ(data->splits.train->size(), 60'000);
  EXPECT_EQ(data->splits.test->size(), 10'000);
  EXPECT_EQ(data->digest.size(), 64U);
  ASSERT_EQ(data->normalization.size(), 1U);
  EXPECT_NEAR(data->normalization[0].mean.at(0), 0.2860, 1e-4);
  EXPECT_NEAR(data->normalization[0].deviation.at(0), 0.3530, 1e-4);
}

TEST(LoadTrainingData, GivesTheSameDigestToEqualDataOnly) {
  OwnImages images;
  const std::string digest = images.digest();
  EXPECT_EQ(digest.size(), 64U);
  EXPECT_EQ(images.digest(), digest);
  std::vector<uint8_t> labels(20, 1);
  labels[19] = 0;
  images.write_labels("y.npy", labels);
  EXPECT_NE(images.digest(), digest);
  images.write_labels("y.npy", std::vector<uint8_t>(20, 1));
  EXPECT_EQ(images.digest(), digest);
  images.write("x.npy", 20, 1);
  EXPECT_NE(images.digest(), digest);
  images.write("x.npy", 20, 0);
  images.options.hold_out.seed = 2;
  EXPECT_NE(images.digest(), digest);
}

TEST(LoadTrainingData, GivesADigestThatCoversTheTestSplit) {
  const OwnImages images;
  images.write("x_test.npy", 3, 0);
  images.write_labels("y_test.npy", {0, 1, 0});
  const std::string digest = images.digest();
  images.write_labels("y_test.npy", {0, 1, 1});
  EXPECT_NE(images.digest(), digest);
}

TEST(LoadTrainingData, GivesADigestOfTheDataAsItCame) {
  OwnImages images;
  const std::string digest = images.digest();
  images.options.augment = {.flip = true, .shift = 1};
  images.options.normalize = false;
  EXPECT_EQ(images.digest(), digest);
  EXPECT_EQ(images.load(5, 99)->digest, digest);
}

TEST(LoadTrainingData, ReadsBytesFromZeroToOneWhereItDoesNotNormalize) {
  OwnImages images;
  images.options.normalize = false;
  const auto data = images.load();
  ASSERT_EQ(data->normalization.size(), 1U);
  EXPECT_TRUE(data->normalization[0].mean.empty());
  EXPECT_TRUE(data->normalization[0].deviation.empty());
  const Splits as_they_came = load_splits(images.options);
  const auto pixels = read_field<uint8_t>(*as_they_came.train, 0);
  const auto values = read_field<float>(*data->splits.train, 0);
  ASSERT_EQ(values.size(), pixels.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_FLOAT_EQ(values[i], static_cast<float>(pixels[i]) / 255);
}

TEST(LoadTrainingData, NormalizesBothSplitsByTheTrainingSplit) {
  const OwnImages images;
  images.folder.write("x.npy", npy("|u1", {2, 1, 1, 2}, raw<uint8_t>({0, 102, 0, 102})));
  images.write_labels("y.npy", {0, 1});
  images.folder.write("x_test.npy", npy("|u1", {1, 1, 1, 2}, raw<uint8_t>({255, 204})));
  images.write_labels("y_test.npy", {1});
  const auto data = images.load(2);
  ASSERT_EQ(data->normalization.size(), 1U);
  EXPECT_EQ(data->normalization[0].mean, (std::vector<float>{0.2F}));
  EXPECT_EQ(data->normalization[0].deviation, (std::vector<float>{0.2F}));
  const std::vector<float> train = {-1, 1, -1, 1};
  const std::vector<float> test = {4, 3};
  const auto train_values = read_field<float>(*data->splits.train, 0);
  const auto test_values = read_field<float>(*data->splits.test, 0);
  for (size_t i = 0; i < train.size(); ++i) EXPECT_NEAR(train_values[i], train[i], 1e-6);
  for (size_t i = 0; i < test.size(); ++i) EXPECT_NEAR(test_values[i], test[i], 1e-6);
}

TEST(LoadTrainingData, LeavesHeldOutSamplesOutOfTheNormalization) {
  OwnImages images;
  images.options.hold_out.test_fraction = 0.5;
  const auto data = images.load();
  const Splits as_they_came = load_splits(images.options);
  const Normalization expected = measure_normalization(*as_they_came.train).at(0);
  EXPECT_EQ(data->normalization.at(0).mean, expected.mean);
  EXPECT_EQ(data->normalization.at(0).deviation, expected.deviation);
  EXPECT_NE(data->normalization.at(0).mean, measure_normalization(*as_they_came.test).at(0).mean);
}

TEST(LoadTrainingData, AugmentsTheTrainingSplitOnly) {
  OwnImages images;
  const auto plain = images.load();
  images.options.augment = {.flip = true, .shift = 1};
  const auto data = images.load(4, 3);
  EXPECT_EQ(data->normalization.at(0).mean, plain->normalization.at(0).mean);
  const auto first = read_field<float>(*data->splits.train, 0, 0);
  EXPECT_NE(first, read_field<float>(*plain->splits.train, 0, 0));
  EXPECT_NE(first, read_field<float>(*data->splits.train, 0, 1));
  EXPECT_NE(first, read_field<float>(*images.load(4, 4)->splits.train, 0, 0));
  EXPECT_EQ(first, read_field<float>(*images.load(4, 3)->splits.train, 0, 0));
  for (const int64_t epoch : {0, 1})
    EXPECT_EQ(read_field<float>(*data->splits.test, 0, epoch),
              read_field<float>(*plain->splits.test, 0, 0));
}

TEST(LoadTrainingData, RefusesABatchLargerThanTheTrainingSplit) {
  const OwnImages images;
  images.load(18);
  expect_bad_input([&] { images.load(19); },
                   {"batch 19: larger than the training set of 18 samples"});
  expect_bad_input([&] { images.load(0); }, {"batch 0"});
}

TEST(LoadTrainingData, NamesTheSampleThatCannotBeRead) {
  const OwnImages images;
  const float bad = std::numeric_limits<float>::quiet_NaN();
  images.folder.write("x.npy", npy("<f4", {4, 1}, raw<float>({1, 2, bad, 3})));
  images.write_labels("y.npy", {0, 1, 0, 1});
  images.folder.write("x_test.npy", npy("<f4", {1, 1}, raw<float>({1})));
  images.write_labels("y_test.npy", {1});
  expect_bad_input([&] { images.load(2); },
                   {"sample 2 cannot be read", "x.npy", "nan in sample 2", "np.nan_to_num"});
}

}  // namespace
}  // namespace lockstep::data
