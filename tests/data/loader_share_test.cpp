#include "data/loader.h"
#include "data/some_datasets.h"
#include "expect_error.h"

namespace lockstep::data {
namespace {

// Sentences: sample i has 3 * i + 1 tokens.
std::shared_ptr<const Dataset> sentences(int64_t size) {
  return computed(
      {{{"first", Type::i64, {2}}}, {{"next", Type::i32}}}, size,
      [](int64_t index, const Sample& to) {
        to.as<int64_t>(0)[0] = index;
        to.as<int64_t>(0)[1] = -index;
        to.as<int32_t>(1)[0] = static_cast<int32_t>(7 * index);
      },
      [](int64_t index) { return 3 * index + 1; });
}

LoaderOptions share_options(int64_t batch, const Share& share) {
  LoaderOptions options;
  options.batch = batch;
  options.share = share;
  return options;
}

// What one or more loaders give of the same batch, side by side.
struct Gathered {
  std::vector<int64_t> samples;
  std::vector<int64_t> items;
  std::vector<int64_t> first;
  std::vector<int32_t> next;
  bool operator==(const Gathered&) const = default;

  void add(const LoadedBatch& batch) {
    EXPECT_EQ(batch.begin, static_cast<int64_t>(samples.size()));
    EXPECT_EQ(batch.items.size(), batch.samples.size());
    samples.insert(samples.end(), batch.samples.begin(), batch.samples.end());
    items.insert(items.end(), batch.items.begin(), batch.items.end());
    const auto of_first = batch_field<int64_t>(batch, 0);
    const auto of_next = batch_field<int32_t>(batch, 1);
    first.insert(first.end(), of_first.begin(), of_first.end());
    next.insert(next.end(), of_next.begin(), of_next.end());
  }
};

void expect_shares_make_the_whole(const std::vector<Share>& shares) {
  Loader reference(sentences(23), share_options(10, {}));
  std::vector<std::unique_ptr<Loader>> workers;
  for (const Share& share : shares)
    workers.push_back(std::make_unique<Loader>(sentences(23), share_options(10, share)));
  for (int64_t i = 0; i < 7; ++i) {  // 10, 10 and 3 samples an epoch
    const LoadedBatch& whole = reference.next();
    Gathered expected;
    expected.add(whole);
    Gathered together;
    for (const auto& worker : workers) {
      const LoadedBatch& part = worker->next();
      EXPECT_EQ(part.epoch, whole.epoch);
      EXPECT_EQ(part.index, whole.index);
      EXPECT_EQ(part.whole, whole.whole);
      EXPECT_EQ(part.whole_items, whole.whole_items);
      together.add(part);
    }
    EXPECT_EQ(together, expected) << "batch " << i;
  }
}

TEST(LoaderShare, TellsWhatEachSampleAndTheWholeBatchCountAs) {
  Loader loader(sentences(23), share_options(10, {}));
  for (int64_t i = 0; i < 6; ++i) {
    const LoadedBatch& batch = loader.next();
    EXPECT_EQ(batch.whole, i % 3 == 2 ? 3 : 10);
    ASSERT_EQ(batch.items.size(), static_cast<size_t>(batch.whole));
    int64_t sum = 0;
    for (size_t s = 0; s < batch.items.size(); ++s) {
      EXPECT_EQ(batch.items[s], 3 * batch.samples[s] + 1);
      sum += batch.items[s];
    }
    EXPECT_EQ(batch.whole_items, sum);
  }
}

TEST(LoaderShare, CountsSamplesByDefault) {
  Loader loader(labelled<uint8_t>({1}, {1, 2, 3}, {0, 0, 0}), share_options(2, {}));
  EXPECT_EQ(loader.next().whole_items, 2);
  EXPECT_EQ(loader.next().whole_items, 1);
}

TEST(LoaderShare, OfAllWorkersTogetherIsTheWholeBatch) {
  for (const int64_t workers : {1, 2, 3, 4, 7, 10}) {
    std::vector<Share> shares;
    for (int64_t rank = 0; rank < workers; ++rank) shares.push_back({rank, rank + 1, workers});
    expect_shares_make_the_whole(shares);
  }
}

TEST(LoaderShare, MayBeSeveralSlices) {
  expect_shares_make_the_whole({{0, 2, 3}, {2, 3, 3}});
  expect_shares_make_the_whole({{0, 1, 8}, {1, 5, 8}, {5, 8, 8}});
}

TEST(LoaderShare, MayBeEmptyInASmallBatch) {
  expect_shares_make_the_whole({{0, 5, 40}, {5, 30, 40}, {30, 40, 40}});
  Loader loader(sentences(23), share_options(10, {30, 40, 40}));
  const LoadedBatch& batch = loader.next();
  EXPECT_TRUE(batch.samples.empty());
  EXPECT_TRUE(batch.items.empty());
  for (const auto& field : batch.fields) EXPECT_TRUE(field.empty());
  EXPECT_EQ(batch.whole, 10);
  EXPECT_GT(batch.whole_items, 0);
}

TEST(LoaderShare, ReadsNoSampleOfAnotherShare) {
  const auto dataset = labelled<uint8_t>({1}, {1, 2, 3, 4, 5, 6, 7, 8}, {0, 1, 0, 1, 0, 1, 0, 1});
  LoaderOptions options = share_options(8, {1, 2, 4});
  options.prefetch = 0;
  Loader loader(dataset, options);
  loader.next();
  EXPECT_EQ(dataset->writes(), 2);
}

TEST(LoaderShare, OfNothingStillKnowsTheWholeBatch) {
  Loader none(sentences(5), share_options(2, {1, 1, 2})), all(sentences(5), share_options(2, {}));
  for (int i = 0; i < 3; ++i) {
    const LoadedBatch &nothing = none.next(), &batch = all.next();
    EXPECT_EQ(nothing.samples.size(), 0);
    EXPECT_EQ(nothing.whole, batch.whole);
    EXPECT_EQ(nothing.whole_items, batch.whole_items);
  }
}

TEST(LoaderShare, RefusesWhatIsNoPartOfABatch) {
  for (const Share& share : {Share{-1, 1, 2}, {2, 1, 2}, {0, 3, 2}})
    expect_bad_input([&] { Loader loader(sentences(5), share_options(2, share)); },
                     {"share " + std::to_string(share.first) + " .. " + std::to_string(share.end)});
}

TEST(LoaderItems, MayBeNone) {
  const auto dataset = computed(
      {{{"x", Type::u8}}, {}}, 4, [](int64_t, const Sample&) {}, [](int64_t) { return 0; });
  Loader loader(dataset, share_options(4, {}));
  EXPECT_EQ(loader.next().whole_items, 0);
}

TEST(LoaderItems, RefusesASampleThatCountsAsLessThanNone) {
  const auto dataset = computed(
      {{{"x", Type::u8}}, {}}, 4, [](int64_t, const Sample&) {},
      [](int64_t index) { return index == 2 ? -5 : 1; });
  // The worker whose share has not got the sample refuses it too.
  for (const Share& share : {Share{0, 1, 4}, {2, 3, 4}}) {
    LoaderOptions options = share_options(4, share);
    options.order = SampleOrder::sequential;
    Loader loader(dataset, options);
    expect_bad_input([&] { loader.next(); }, {"sample 2 counts as -5 items", "0 or more"});
  }
}

}  // namespace
}  // namespace lockstep::data
