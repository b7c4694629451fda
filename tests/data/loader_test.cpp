#include "data/loader.h"

#include <algorithm>
#include <numeric>

#include "expect_error.h"

namespace lockstep::data {
namespace {

// Images of 1 x 2 x 2 whose first pixel is the sample's number, labelled by it.
Dataset numbered(int64_t size) {
  Dataset dataset;
  dataset.shape = {1, 2, 2};
  std::vector<uint8_t> values;
  for (int64_t i = 0; i < size; ++i) {
    for (const int64_t value : {i, i + 1, i + 2, i + 3})
      values.push_back(static_cast<uint8_t>(value % 256));
    dataset.labels.push_back(static_cast<int32_t>(i % 7));
  }
  dataset.values = values;
  dataset.class_names.assign(7, "");
  return dataset;
}

struct Seen {
  int64_t epoch;
  int64_t index;
  std::vector<int64_t> samples;
  std::vector<float> values;
  std::vector<int64_t> labels;
  bool operator==(const Seen&) const = default;
};

Seen copy(const Batch& batch) {
  return {batch.epoch,
          batch.index,
          {batch.samples.begin(), batch.samples.end()},
          {batch.values.begin(), batch.values.end()},
          {batch.labels.begin(), batch.labels.end()}};
}

std::vector<Seen> take(Loader& loader, int64_t count) {
  std::vector<Seen> seen;
  for (int64_t i = 0; i < count; ++i) seen.push_back(copy(loader.next()));
  return seen;
}

LoaderOptions options_of(int64_t batch) {
  LoaderOptions options;
  options.batch = batch;
  options.augment = {.flip = true, .shift = 1};
  options.normalization = {{0.5F}, {0.25F}};
  return options;
}

TEST(EpochOrder, IsAPermutationKeyedBySeedAndEpoch) {
  std::vector<int64_t> order = epoch_order(100, Order::shuffled, 1, 0);
  EXPECT_EQ(order, epoch_order(100, Order::shuffled, 1, 0));
  EXPECT_NE(order, epoch_order(100, Order::shuffled, 1, 1));
  EXPECT_NE(order, epoch_order(100, Order::shuffled, 2, 0));
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, epoch_order(100, Order::sequential, 1, 0));
  EXPECT_TRUE(epoch_order(0, Order::shuffled, 1, 0).empty());
}

TEST(Loader, CoversEverySampleOnceAnEpoch) {
  const Dataset dataset = numbered(103);
  Loader loader(dataset, options_of(10));
  ASSERT_EQ(loader.batches_per_epoch(), 11);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> samples;
    for (const Seen& seen : take(loader, 11)) {
      EXPECT_EQ(seen.epoch, epoch);
      EXPECT_EQ(seen.samples.size(), seen.index == 10 ? 3U : 10U);
      EXPECT_EQ(seen.labels.size(), seen.samples.size());
      EXPECT_EQ(seen.values.size(), seen.samples.size() * 4);
      samples.insert(samples.end(), seen.samples.begin(), seen.samples.end());
    }
    EXPECT_EQ(samples, epoch_order(103, Order::shuffled, 1, epoch));
  }
}

TEST(Loader, DropsTheLastBatchWhenAsked) {
  const Dataset dataset = numbered(103);
  LoaderOptions options = options_of(10);
  options.last = LastBatch::drop;
  Loader loader(dataset, options);
  ASSERT_EQ(loader.batches_per_epoch(), 10);
  for (const Seen& seen : take(loader, 20)) EXPECT_EQ(seen.samples.size(), 10U);
}

TEST(Loader, GivesEachSampleItsValuesAndItsLabel) {
  const Dataset dataset = numbered(50);
  LoaderOptions options = options_of(8);
  options.augment = {};
  Loader loader(dataset, options);
  for (const Seen& seen : take(loader, 14))
    for (size_t i = 0; i < seen.samples.size(); ++i) {
      EXPECT_EQ(seen.labels[i], seen.samples[i] % 7);
      for (size_t p = 0; p < 4; ++p) {
        const float pixel = static_cast<float>(seen.samples[i] + static_cast<int64_t>(p)) / 255;
        EXPECT_NEAR(seen.values[4 * i + p], (pixel - 0.5F) / 0.25F, 1e-5);
      }
    }
}

TEST(Loader, GivesTheSameBatchesWithAnyPrefetch) {
  const Dataset dataset = numbered(53);
  Loader reference(dataset, options_of(8));
  const std::vector<Seen> expected = take(reference, 30);
  for (const int64_t prefetch : {0, 1, 2, 9}) {
    LoaderOptions options = options_of(8);
    options.prefetch = prefetch;
    Loader loader(dataset, options);
    EXPECT_EQ(take(loader, 30), expected) << "prefetch " << prefetch;
  }
}

TEST(Loader, GoesOnFromWhereItSeeks) {
  const Dataset dataset = numbered(53);
  Loader reference(dataset, options_of(8));
  const std::vector<Seen> all = take(reference, 30);  // 7 an epoch
  Loader loader(dataset, options_of(8));
  for (const size_t start : {0U, 3U, 6U, 7U, 15U, 1U}) {
    loader.seek(static_cast<int64_t>(start) / 7, static_cast<int64_t>(start) % 7);
    EXPECT_EQ(take(loader, 5), std::vector<Seen>(all.begin() + start, all.begin() + start + 5));
  }
  loader.seek(0, 7);
  EXPECT_EQ(take(loader, 1).front(), all[7]);
}

TEST(Loader, KeepsTheBatchInUseWhenItSeeks) {
  const Dataset dataset = numbered(53);
  Loader loader(dataset, options_of(8));
  for (int64_t i = 0; i < 50; ++i) {
    const Batch& batch = loader.next();
    const Seen before = copy(batch);
    loader.seek(i, i % 7);
    EXPECT_EQ(copy(batch), before);
  }
}

TEST(Loader, EndsAtAnyMoment) {
  const Dataset dataset = numbered(2000);
  for (int64_t batches = 0; batches < 20; ++batches) {
    Loader loader(dataset, options_of(64));
    take(loader, batches % 4);
    if (batches % 2 == 1) loader.seek(3, 3);
  }
}

TEST(Loader, UncoversBlackBeforeNormalization) {
  Dataset dataset;
  dataset.shape = {2, 3, 3};
  dataset.labels.assign(200, 0);
  dataset.values = std::vector<uint8_t>(200 * 18, 255);
  LoaderOptions options;
  options.batch = 200;
  options.augment.shift = 1;
  options.normalization = {{0.5F, 0.25F}, {0.5F, 0.25F}};
  const auto check = [&](const Dataset& of) {
    Loader loader(of, options);
    const Seen seen = copy(loader.next());
    bool black = false;
    for (size_t i = 0; i < seen.values.size(); ++i) {
      const float white = i % 18 < 9 ? 1.0F : 3.0F;
      EXPECT_TRUE(std::abs(seen.values[i] - white) < 1e-5F || seen.values[i] == -1.0F)
          << seen.values[i];
      black |= seen.values[i] == -1.0F;
    }
    EXPECT_TRUE(black);
  };
  check(dataset);
  dataset.values = std::vector<float>(200 * 18, 1.0F);
  check(dataset);
}

TEST(Loader, ChangesASampleTheSameInWhicheverBatch) {
  const Dataset dataset = numbered(60);
  Loader small(dataset, options_of(4));
  Loader large(dataset, options_of(60));
  const Seen whole = copy(large.next());
  std::vector<float> pieces;
  for (const Seen& seen : take(small, 15))
    pieces.insert(pieces.end(), seen.values.begin(), seen.values.end());
  EXPECT_EQ(pieces, whole.values);
}

TEST(Loader, ReadsFloatsAsTheyAreWithoutNormalization) {
  Dataset dataset;
  dataset.shape = {3};
  dataset.labels = {1, 0};
  dataset.values = std::vector<float>{1.5F, -2, 3, 4, 5, 6};
  LoaderOptions options;
  options.batch = 2;
  options.order = Order::sequential;
  Loader loader(dataset, options);
  const Seen seen = copy(loader.next());
  EXPECT_EQ(seen.values, std::get<std::vector<float>>(dataset.values));
  EXPECT_EQ(seen.labels, (std::vector<int64_t>{1, 0}));
}

TEST(Loader, ReadsBytesFromZeroToOneWithoutNormalization) {
  Dataset dataset;
  dataset.shape = {2};
  dataset.labels = {0};
  dataset.values = std::vector<uint8_t>{0, 255};
  LoaderOptions options;
  options.batch = 1;
  Loader loader(dataset, options);
  EXPECT_EQ(copy(loader.next()).values, (std::vector<float>{0, 1}));
}

TEST(Loader, RefusesABatchLargerThanTheData) {
  const Dataset dataset = numbered(5);
  expect_bad_input([&] { Loader loader(dataset, options_of(6)); },
                   {"batch 6: larger than the training set of 5 samples; "});
  expect_bad_input([&] { Loader loader(dataset, options_of(0)); }, {"batch 0"});
}

TEST(Loader, RefusesOptionsThatDoNotFitTheSamples) {
  Dataset rows;
  rows.shape = {4};
  rows.labels = {0};
  rows.values = std::vector<float>(4);
  expect_bad_input([&] { Loader loader(rows, options_of(1)); }, {"augment", "shape 4", "flip"});

  const Dataset images = numbered(5);
  LoaderOptions options = options_of(1);
  options.augment.shift = 2;
  expect_bad_input([&] { Loader loader(images, options); }, {"shift 2", "2 x 2"});
  options.augment.shift = -1;
  expect_bad_input([&] { Loader loader(images, options); }, {"shift -1"});
  options = options_of(1);
  options.normalization = {{0, 0}, {1, 1}};
  expect_bad_input([&] { Loader loader(images, options); }, {"2 mean(s)", "1 channel(s)"});
  options.normalization = {{0}, {0}};
  expect_bad_input([&] { Loader loader(images, options); }, {"deviation 0"});
  options = options_of(1);
  options.prefetch = -1;
  expect_bad_input([&] { Loader loader(images, options); }, {"prefetch -1"});
}

TEST(Loader, RefusesADataSetWithMissingValues) {
  Dataset dataset = numbered(5);
  std::get<std::vector<uint8_t>>(dataset.values).pop_back();
  expect_bad_input([&] { Loader loader(dataset, options_of(2)); }, {"19 values", "expected 20"});
}

TEST(Loader, RefusesToSeekBeforeTheStart) {
  const Dataset dataset = numbered(5);
  Loader loader(dataset, options_of(2));
  expect_bad_input([&] { loader.seek(-1, 0); }, {"epoch -1"});
  expect_bad_input([&] { loader.seek(0, -1); }, {"batch -1"});
}

}  // namespace
}  // namespace lockstep::data
