#include "data/normalization.h"

#include <cmath>

#include "data/some_datasets.h"
#include "expect_error.h"

namespace lockstep::data {
namespace {

Normalization measured_first(const std::shared_ptr<const Dataset>& dataset) {
  return measure_normalization(*dataset).at(0);
}

// Two samples with an input of every kind there is, and targets that look like inputs.
Fields fields_of_every_kind() {
  return {{{"image", Type::u8, {2, 1, 2}},
           {"mask", Type::u8, {2, 1, 2}, {"road", "car"}},
           {"row", Type::f32, {2}},
           {"ids", Type::i64, {2}},
           {"exact", Type::f64}},
          {{"price", Type::f32, {2}}, {"drawing", Type::u8, {1, 1, 2}}}};
}

std::shared_ptr<const ComputedDataset> samples_of_every_kind() {
  return computed(fields_of_every_kind(), 2, [](int64_t index, const Sample& to) {
    copy_to<uint8_t>(to, 0, {0, 255, 51, 51, 0, 255, 51, 51}, index);
    copy_to<uint8_t>(to, 1, {0, 1, 1, 0, 1, 1, 0, 0}, index);
    copy_to<float>(to, 2, {1, 3, 3, 5}, index);
    copy_to<int64_t>(to, 3, {7, -8, 9, 10}, index);
    copy_to<double>(to, 4, {0.25, 0.75}, index);
    copy_to<float>(to, 5, {100, 200, 300, 400}, index);
    copy_to<uint8_t>(to, 6, {1, 2, 3, 4}, index);
  });
}

TEST(Normalization, MeasuresEachChannelOfBytes) {
  // The first channel has 0, 255, 0, 255; the second 51 four times.
  const Normalization measured =
      measured_first(labelled<uint8_t>({2, 1, 2}, {0, 255, 51, 51, 0, 255, 51, 51}, {0, 0}));
  EXPECT_EQ(measured.mean, (std::vector<float>{0.5F, 0.2F}));
  EXPECT_EQ(measured.deviation, (std::vector<float>{0.5F, 1.0F}));
}

TEST(Normalization, MeasuresFloats) {
  const Normalization measured =
      measured_first(labelled<float>({3, 1, 1}, {1, 0.1F, -5, 3, 0.1F, 5}, {0, 0}));
  EXPECT_EQ(measured.mean, (std::vector<float>{2, 0.1F, 0}));
  EXPECT_EQ(measured.deviation, (std::vector<float>{1, 1, 5}));
}

TEST(Normalization, TakesAnythingButAnImageAsOneChannel) {
  for (const Shape& shape : {Shape{4}, {1, 2, 1, 2}, {2, 2}})
    EXPECT_EQ(measured_first(labelled<float>(shape, {1, 2, 3, 4}, {0})).mean,
              (std::vector<float>{2.5F}));
}

TEST(Normalization, IsExactWhereBytesWouldOverflowOrRound) {
  // A sample longer than the pieces that are summed in 32 bits, all but one of its bytes 255.
  std::vector<uint8_t> bytes(200'000, 255);
  bytes[0] = 0;
  const Normalization measured =
      measured_first(labelled<uint8_t>({1, 1, 200'000}, std::move(bytes), {0}));
  const double n = 200'000;
  EXPECT_FLOAT_EQ(measured.mean[0], static_cast<float>((n - 1) / n));
  EXPECT_FLOAT_EQ(measured.deviation[0], static_cast<float>(std::sqrt((n - 1) / (n * n))));
}

TEST(Normalization, KeepsTheDeviationOfFloatsFarFromZero) {
  const Normalization measured =
      measured_first(labelled<float>({2}, {1e6F, 1e6F + 2, 1e6F, 1e6F + 2}, {0, 0}));
  EXPECT_EQ(measured.mean, (std::vector<float>{1e6F + 1}));
  EXPECT_EQ(measured.deviation, (std::vector<float>{1}));
}

TEST(Normalization, MeasuresASpreadOfSamplesWhereThereAreMoreThanTwoGibibytes) {
  std::vector<int64_t> read;
  const auto dataset =
      computed({{{"x", Type::u8, {4096}}}, {}}, 1'000'000, [&](int64_t index, const Sample& to) {
        read.push_back(index);
        std::memset(to.bytes(0).data(), 51, to.bytes(0).size());
      });
  EXPECT_EQ(measured_first(dataset).mean, (std::vector<float>{0.2F}));
  ASSERT_EQ(read.size(), 8'192U);
  EXPECT_EQ(read.front(), 0);
  EXPECT_GT(read.back(), 999'000);
}

TEST(Normalization, MeasuresQuantitiesOnly) {
  const std::vector<Normalization> measured = measure_normalization(*samples_of_every_kind());
  ASSERT_EQ(measured.size(), 5U);
  EXPECT_EQ(measured[0].mean, (std::vector<float>{0.5F, 0.2F}));
  EXPECT_EQ(measured[0].deviation, (std::vector<float>{0.5F, 1}));
  EXPECT_EQ(measured[2].mean, (std::vector<float>{3}));
  EXPECT_EQ(measured[2].deviation, (std::vector<float>{std::sqrt(2.0F)}));
  for (const size_t other : {1U, 3U, 4U}) {
    EXPECT_TRUE(measured[other].mean.empty());
    EXPECT_TRUE(measured[other].deviation.empty());
  }
}

TEST(Normalized, WritesQuantitiesAsFloatsAndLeavesTheRestAsItIs) {
  const auto original = samples_of_every_kind();
  const auto dataset = normalized(original, measure_normalization(*original));
  Fields expected = fields_of_every_kind();
  expected.inputs[0].type = Type::f32;
  EXPECT_EQ(dataset->fields(), expected);
  const auto image = read_field<float>(*dataset, 0);
  const std::vector<float> expected_image = {-1, 1, 0, 0, -1, 1, 0, 0};
  for (size_t i = 0; i < expected_image.size(); ++i)
    EXPECT_NEAR(image[i], expected_image[i], 1e-6) << i;
  const float far = std::sqrt(2.0F);
  const auto row = read_field<float>(*dataset, 2);
  const std::vector<float> expected_row = {-far, 0, 0, far};
  for (size_t i = 0; i < expected_row.size(); ++i) EXPECT_NEAR(row[i], expected_row[i], 1e-6) << i;
  EXPECT_EQ(read_field<uint8_t>(*dataset, 1), read_field<uint8_t>(*original, 1));
  EXPECT_EQ(read_field<int64_t>(*dataset, 3), (std::vector<int64_t>{7, -8, 9, 10}));
  EXPECT_EQ(read_field<double>(*dataset, 4), (std::vector<double>{0.25, 0.75}));
  EXPECT_EQ(read_field<float>(*dataset, 5), (std::vector<float>{100, 200, 300, 400}));
  EXPECT_EQ(read_field<uint8_t>(*dataset, 6), (std::vector<uint8_t>{1, 2, 3, 4}));
}

TEST(Normalized, GivesTheLoaderEveryFieldInItsType) {
  const auto original = samples_of_every_kind();
  const auto dataset = normalized(original, measure_normalization(*original));
  LoaderOptions options;
  options.batch = 2;
  options.order = SampleOrder::sequential;
  Loader loader(dataset, options);
  const LoadedBatch& batch = loader.next();
  ASSERT_EQ(batch.fields.size(), 7U);
  EXPECT_EQ(batch_field<float>(batch, 0), read_field<float>(*dataset, 0));
  EXPECT_EQ(batch_field<uint8_t>(batch, 1), read_field<uint8_t>(*original, 1));
  EXPECT_EQ(batch_field<float>(batch, 2), read_field<float>(*dataset, 2));
  EXPECT_EQ(batch_field<int64_t>(batch, 3), read_field<int64_t>(*original, 3));
  EXPECT_EQ(batch_field<double>(batch, 4), read_field<double>(*original, 4));
  EXPECT_EQ(batch_field<float>(batch, 5), read_field<float>(*original, 5));
  EXPECT_EQ(batch_field<uint8_t>(batch, 6), read_field<uint8_t>(*original, 6));
}

TEST(Normalized, ReadsFloatsAsTheyAreWithoutNumbers) {
  const std::vector<float> values = {1.5F, -2, 3, 4, 5, 6};
  const auto dataset = normalized(labelled<float>({3}, values, {1, 0}), {{}});
  EXPECT_EQ(read_field<float>(*dataset, 0), values);
  EXPECT_EQ(read_labels(*dataset), (std::vector<int64_t>{1, 0}));
}

TEST(Normalized, ReadsBytesFromZeroToOneWithoutNumbers) {
  const auto dataset = normalized(labelled<uint8_t>({2}, {0, 255}, {0}), {{}});
  EXPECT_EQ(read_field<float>(*dataset, 0), (std::vector<float>{0, 1}));
}

TEST(Normalized, DoesNotCancelFloatsWhoseMeanIsFarLargerThanTheirDeviation) {
  const auto dataset = normalized(labelled<float>({2}, {1e7F - 1, 1e7F + 1}, {0}), {{{1e7F}, {1}}});
  EXPECT_EQ(read_field<float>(*dataset, 0), (std::vector<float>{-1, 1}));
}

TEST(Normalized, KeepsSizeItemsAndDigest) {
  const auto original = computed(
      {{{"x", Type::u8, {2}}}, {}}, 3,
      [](int64_t index, const Sample& to) { to.as<uint8_t>(0)[0] = static_cast<uint8_t>(index); },
      [](int64_t index) { return index + 5; });
  const auto dataset = normalized(original, {{{0.5F}, {2}}});
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->items(2), 7);
  EXPECT_EQ(dataset->digest(), original->digest());
}

TEST(Normalized, RefusesNumbersThatDoNotFitTheInputs) {
  const auto images = labelled<uint8_t>({1, 2, 2}, {1, 2, 3, 4}, {0});
  expect_bad_input([&] { normalized(images, {{{0, 0}, {1, 1}}}); },
                   {"2 mean(s)", "1 channel(s)", "'x'"});
  expect_bad_input([&] { normalized(images, {{{0}, {}}}); }, {"1 mean(s) and 0 deviation(s)"});
  expect_bad_input([&] { normalized(images, {{{0}, {0}}}); }, {"deviation 0"});
  expect_bad_input([&] { normalized(images, {{{0}, {NAN}}}); }, {"deviation nan"});
  expect_bad_input([&] { normalized(images, {}); }, {"0 input(s)", "there are 1"});
  const auto ids = labelled<int64_t>({1}, {1}, {0});
  expect_bad_input([&] { normalized(ids, {{{0}, {1}}}); }, {"'x'", "without categories"});
}

}  // namespace
}  // namespace lockstep::data
