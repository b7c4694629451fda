#include "data/loader.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "data/augment.h"
#include "data/normalization.h"
#include "data/some_datasets.h"
#include "expect_error.h"

namespace lockstep::data {
namespace {

// Images of 1 x 2 x 2 whose first pixel is the sample's number, labelled by it.
std::shared_ptr<const Dataset> numbered_images(int64_t size) {
  return computed({{{"x", Type::u8, {1, 2, 2}}}, {label_field(std::vector<std::string>(7, ""))}},
                  size, [](int64_t index, const Sample& to) {
                    for (int64_t p = 0; p < 4; ++p)
                      to.as<uint8_t>(0)[static_cast<size_t>(p)] =
                          static_cast<uint8_t>((index + p) % 256);
                    to.as<int64_t>(1)[0] = index % 7;
                  });
}

// The same, as a model reads them.
std::shared_ptr<const Dataset> changed_images(int64_t size, uint64_t seed = 1) {
  return normalized(augmented(numbered_images(size), {.flip = true, .shift = 1}, seed),
                    {{{0.5F}, {0.25F}}});
}

struct Seen {
  int64_t epoch;
  int64_t index;
  std::vector<int64_t> samples;
  std::vector<float> values;
  std::vector<int64_t> labels;
  bool operator==(const Seen&) const = default;
};

Seen seen_in(const LoadedBatch& batch) {
  return {batch.epoch,
          batch.index,
          {batch.samples.begin(), batch.samples.end()},
          batch_field<float>(batch, 0),
          batch_field<int64_t>(batch, 1)};
}

std::vector<Seen> take(Loader& loader, int64_t count) {
  std::vector<Seen> seen;
  for (int64_t i = 0; i < count; ++i) seen.push_back(seen_in(loader.next()));
  return seen;
}

LoaderOptions batches_of(int64_t batch) {
  LoaderOptions options;
  options.batch = batch;
  return options;
}

TEST(EpochOrder, IsAPermutationKeyedBySeedAndEpoch) {
  std::vector<int64_t> order = epoch_order(100, SampleOrder::shuffled, 1, 0);
  EXPECT_EQ(order, epoch_order(100, SampleOrder::shuffled, 1, 0));
  EXPECT_NE(order, epoch_order(100, SampleOrder::shuffled, 1, 1));
  EXPECT_NE(order, epoch_order(100, SampleOrder::shuffled, 2, 0));
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, epoch_order(100, SampleOrder::sequential, 1, 0));
  EXPECT_TRUE(epoch_order(0, SampleOrder::shuffled, 1, 0).empty());
}

TEST(EpochOrder, IsTheOrderOfEarlierRuns) {
  EXPECT_EQ(epoch_order(12, SampleOrder::shuffled, 1, 0),
            (std::vector<int64_t>{5, 2, 11, 6, 4, 7, 0, 8, 9, 10, 3, 1}));
  EXPECT_EQ(epoch_order(12, SampleOrder::shuffled, 7, 3),
            (std::vector<int64_t>{1, 6, 8, 0, 7, 9, 3, 4, 10, 2, 5, 11}));
}

TEST(Loader, CoversEverySampleOnceAnEpoch) {
  Loader loader(changed_images(103), batches_of(10));
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
    EXPECT_EQ(samples, epoch_order(103, SampleOrder::shuffled, 1, epoch));
  }
}

TEST(Loader, ReadsInTheOrderOfTheDataSetWhenAsked) {
  LoaderOptions options = batches_of(4);
  options.order = SampleOrder::sequential;
  Loader loader(changed_images(10), options);
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    EXPECT_EQ(take(loader, 1).front().samples, (std::vector<int64_t>{0, 1, 2, 3}));
    EXPECT_EQ(take(loader, 1).front().samples, (std::vector<int64_t>{4, 5, 6, 7}));
    EXPECT_EQ(take(loader, 1).front().samples, (std::vector<int64_t>{8, 9}));
  }
}

TEST(Loader, DropsTheLastBatchWhenAsked) {
  LoaderOptions options = batches_of(10);
  options.last = LastBatch::drop;
  Loader loader(changed_images(103), options);
  ASSERT_EQ(loader.batches_per_epoch(), 10);
  for (const Seen& seen : take(loader, 20)) EXPECT_EQ(seen.samples.size(), 10U);
}

TEST(Loader, GivesEachSampleItsValuesAndItsLabel) {
  Loader loader(normalized(numbered_images(50), {{{0.5F}, {0.25F}}}), batches_of(8));
  for (const Seen& seen : take(loader, 14))
    for (size_t i = 0; i < seen.samples.size(); ++i) {
      EXPECT_EQ(seen.labels[i], seen.samples[i] % 7);
      for (size_t p = 0; p < 4; ++p) {
        const float pixel = static_cast<float>(seen.samples[i] + static_cast<int64_t>(p)) / 255;
        EXPECT_NEAR(seen.values[4 * i + p], (pixel - 0.5F) / 0.25F, 1e-5);
      }
    }
}

TEST(Loader, TellsTheDataSetTheEpoch) {
  const auto dataset = computed({{{"epoch", Type::i64}}, {}}, 4, [](int64_t, const Sample& to) {
    to.as<int64_t>(0)[0] = to.epoch();
  });
  Loader loader(dataset, batches_of(2));
  for (int64_t i = 0; i < 6; ++i)
    EXPECT_EQ(batch_field<int64_t>(loader.next(), 0), (std::vector<int64_t>{i / 2, i / 2}));
}

TEST(Loader, GivesTheSameBatchesWithAnyPrefetch) {
  Loader reference(changed_images(53), batches_of(8));
  const std::vector<Seen> expected = take(reference, 30);
  for (const int64_t prefetch : {0, 1, 2, 9}) {
    LoaderOptions options = batches_of(8);
    options.prefetch = prefetch;
    Loader loader(changed_images(53), options);
    EXPECT_EQ(take(loader, 30), expected) << "prefetch " << prefetch;
  }
}

TEST(Loader, GoesOnFromWhereItSeeks) {
  Loader reference(changed_images(53), batches_of(8));
  const std::vector<Seen> all = take(reference, 30);  // 7 an epoch
  Loader loader(changed_images(53), batches_of(8));
  for (const size_t start : {0U, 3U, 6U, 7U, 15U, 1U}) {
    loader.seek(static_cast<int64_t>(start) / 7, static_cast<int64_t>(start) % 7);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(start);
    EXPECT_EQ(take(loader, 5), std::vector<Seen>(first, first + 5));
  }
  loader.seek(0, 7);
  EXPECT_EQ(take(loader, 1).front(), all[7]);
}

TEST(Loader, KeepsTheBatchInUseWhenItSeeks) {
  Loader loader(changed_images(53), batches_of(8));
  for (int64_t i = 0; i < 50; ++i) {
    const LoadedBatch& batch = loader.next();
    const Seen before = seen_in(batch);
    loader.seek(i, i % 7);
    EXPECT_EQ(seen_in(batch), before);
  }
}

TEST(Loader, EndsAtAnyMoment) {
  for (int64_t batches = 0; batches < 20; ++batches) {
    Loader loader(changed_images(2000), batches_of(64));
    take(loader, batches % 4);
    if (batches % 2 == 1) loader.seek(3, 3);
  }
}

TEST(Loader, KeepsTheDataSetAsLongAsItNeedsIt) {
  std::weak_ptr<const Dataset> watched;
  {
    auto dataset = changed_images(20);
    watched = dataset;
    Loader loader(std::move(dataset), batches_of(5));
    take(loader, 9);
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

TEST(Loader, UncoversBlackBeforeNormalization) {
  const auto check = [](const std::shared_ptr<const Dataset>& white_images) {
    const auto dataset =
        normalized(augmented(white_images, {.shift = 1}, 1), {{{0.5F, 0.25F}, {0.5F, 0.25F}}});
    Loader loader(dataset, batches_of(200));
    const Seen seen = seen_in(loader.next());
    bool black = false;
    for (size_t i = 0; i < seen.values.size(); ++i) {
      const float white = i % 18 < 9 ? 1.0F : 3.0F;
      EXPECT_TRUE(std::abs(seen.values[i] - white) < 1e-5F || seen.values[i] == -1.0F)
          << seen.values[i];
      black |= seen.values[i] == -1.0F;
    }
    EXPECT_TRUE(black);
  };
  const std::vector<int64_t> labels(200, 0);
  check(labelled({2, 3, 3}, std::vector<uint8_t>(200 * 18, 255), labels));
  check(labelled({2, 3, 3}, std::vector<float>(200 * 18, 1.0F), labels));
}

TEST(Loader, ChangesASampleTheSameInWhicheverBatch) {
  Loader small(changed_images(60), batches_of(4));
  Loader large(changed_images(60), batches_of(60));
  const Seen whole = seen_in(large.next());
  std::vector<float> pieces;
  for (const Seen& seen : take(small, 15))
    pieces.insert(pieces.end(), seen.values.begin(), seen.values.end());
  EXPECT_EQ(pieces, whole.values);
}

TEST(Loader, ChangesASampleOtherwiseInAnotherEpochAndWithAnotherSeed) {
  LoaderOptions options = batches_of(60);
  options.order = SampleOrder::sequential;
  Loader loader(changed_images(60), options);
  const std::vector<Seen> epochs = take(loader, 2);
  EXPECT_NE(epochs[0].values, epochs[1].values);
  Loader other(changed_images(60, 2), options);
  EXPECT_NE(take(other, 1).front().values, epochs[0].values);
}

TEST(Loader, GivesSeveralInputsAndTargetsOfDifferentTypes) {
  const Fields fields = {{{"pixels", Type::u8, {2, 2}},
                          {"mask", Type::u8, {3}, {"road", "car"}},
                          {"ids", Type::i64, {2}},
                          {"half", Type::f16, {1}}},
                         {{"price", Type::f32}, {"exact", Type::f64, {2}}, {"count", Type::i32}}};
  // The bytes of sample 5 in field 2 are 52, 53, 54, ...
  const auto write = [](int64_t index, const Sample& to) {
    for (size_t field = 0; field < 7; ++field)
      for (size_t b = 0; b < to.bytes(field).size(); ++b)
        to.bytes(field)[b] = static_cast<std::byte>(10 * index + static_cast<int64_t>(field + b));
  };
  Loader loader(computed(fields, 20, write), batches_of(6));
  for (int64_t i = 0; i < 8; ++i) {
    const LoadedBatch& batch = loader.next();
    ASSERT_EQ(batch.fields.size(), 7U);
    for (size_t field = 0; field < 7; ++field) {
      std::vector<uint8_t> expected;
      for (const int64_t sample : batch.samples)
        for (int64_t b = 0; b < bytes_of(fields[field]); ++b)
          expected.push_back(static_cast<uint8_t>(10 * sample + static_cast<int64_t>(field) + b));
      EXPECT_EQ(batch_field<uint8_t>(batch, field), expected) << fields[field].name;
    }
  }
}

TEST(Loader, RefusesABatchLargerThanTheData) {
  expect_bad_input([&] { Loader loader(changed_images(5), batches_of(6)); },
                   {"batch 6: larger than the training set of 5 samples; "});
  expect_bad_input([&] { Loader loader(changed_images(5), batches_of(0)); }, {"batch 0"});
}

TEST(Loader, RefusesAnImpossiblePrefetch) {
  LoaderOptions options = batches_of(1);
  for (const int64_t prefetch : {-1, 1025}) {
    options.prefetch = prefetch;
    expect_bad_input([&] { Loader loader(changed_images(5), options); },
                     {"prefetch " + std::to_string(prefetch)});
  }
}

TEST(Loader, RefusesToSeekBeforeTheStart) {
  Loader loader(changed_images(5), batches_of(2));
  expect_bad_input([&] { loader.seek(-1, 0); }, {"epoch -1"});
  expect_bad_input([&] { loader.seek(0, -1); }, {"batch -1"});
}

TEST(Loader, NamesTheSampleThatCannotBeReadAfterTheBatchesBeforeIt) {
  const auto dataset = computed({{{"x"}}, {}}, 10, [](int64_t index, const Sample& to) {
    if (index == 7) throw std::runtime_error("the disk is gone");
    to.as<float>(0)[0] = static_cast<float>(index);
  });
  LoaderOptions options = batches_of(3);
  options.order = SampleOrder::sequential;
  Loader loader(dataset, options);
  EXPECT_EQ(batch_field<float>(loader.next(), 0), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(batch_field<float>(loader.next(), 0), (std::vector<float>{3, 4, 5}));
  expect_bad_input([&] { loader.next(); }, {"sample 7 cannot be read: the disk is gone"});
}

// One that breaks its promise to stay the same.
struct Unsteady final : Dataset {
  std::atomic<int64_t> samples = 4;
  std::atomic<bool> renamed = false;
  const Fields fields_before = {{{"x", Type::u8, {2}}}, {}};
  const Fields fields_after = {{{"z", Type::u8, {2}}}, {}};

  int64_t size() const override { return samples; }
  const Fields& fields() const override { return renamed ? fields_after : fields_before; }
  void write(int64_t, const Sample& to) const override { to.as<uint8_t>(0)[0] = 1; }
};

TEST(Loader, RefusesADataSetWhoseSizeHasChanged) {
  const auto dataset = std::make_shared<Unsteady>();
  LoaderOptions options = batches_of(2);
  options.prefetch = 0;
  Loader loader(dataset, options);
  loader.next();
  loader.next();
  dataset->samples = 3;
  expect_bad_input([&] { loader.next(); }, {"size was 4 and is 3 now"});
}

TEST(Loader, RefusesADataSetWhoseFieldsHaveChanged) {
  const auto dataset = std::make_shared<Unsteady>();
  LoaderOptions options = batches_of(2);
  options.prefetch = 0;
  Loader loader(dataset, options);
  loader.next();
  loader.next();
  dataset->renamed = true;
  expect_bad_input([&] { loader.next(); }, {"fields have changed"});
}

}  // namespace
}  // namespace lockstep::data
