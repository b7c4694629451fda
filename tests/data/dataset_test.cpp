#include "data/dataset.h"

#include <numeric>
#include <set>
#include <stdexcept>

#include "data/some_datasets.h"
#include "expect_error.h"

namespace lockstep::data {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

void write_nothing(int64_t, const Sample&) {}

// Samples of so many bytes that start with the sample's number.
std::shared_ptr<const ComputedDataset> sized(int64_t size, int64_t bytes) {
  return computed({{{"x", Type::u8, {bytes}}}, {}}, size, [](int64_t index, const Sample& to) {
    std::memcpy(to.bytes(0).data(), &index, std::min(sizeof index, to.bytes(0).size()));
  });
}

// Two samples of the fields, whose bytes are 1, 2, 3, ...
std::string digest_of_fields(const Fields& fields) {
  return computed(fields, 2,
                  [&](int64_t index, const Sample& to) {
                    for (size_t i = 0; i < fields.count(); ++i)
                      for (size_t b = 0; b < to.bytes(i).size(); ++b)
                        to.bytes(i)[b] = static_cast<std::byte>(index + 1);
                  })
      ->digest();
}

TEST(Dataset, DescribesItsShape) {
  EXPECT_EQ(to_string({1, 28, 28}), "1 x 28 x 28");
  EXPECT_EQ(elements({3, 4, 5}), 60);
  EXPECT_EQ(elements({}), 1);
  EXPECT_EQ(checked_elements(Shape{int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
  EXPECT_EQ(checked_elements(Shape{-1}), std::nullopt);
}

TEST(Dataset, CountsTheBytesOfASample) {
  const Fields fields = {{{"x", Type::u8, {3, 4, 5}}, {"row", Type::f32, {7}}},
                         {{"y", Type::f64}, label_field({"a"})}};
  EXPECT_EQ(bytes_of(fields.inputs[0]), 60);
  EXPECT_EQ(bytes_of(fields.inputs[1]), 28);
  EXPECT_EQ(bytes_of(fields), 60 + 28 + 8 + 8);
}

TEST(Dataset, CountsASampleAsOneItemByDefault) {
  const auto dataset = sized(3, 1);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(dataset->items(i), 1);
}

TEST(Sample, RefusesElementsOfAnotherType) {
  const auto dataset = computed({{{"pixels", Type::u8, {4}}}, {}}, 1,
                                [](int64_t, const Sample& to) { to.as<float>(0)[0] = 1; });
  const SampleRoom room(dataset->fields());
  expect_bad_input([&] { write_sample(*dataset, 0, 0, room.memory()); },
                   {"sample 0", "field 'pixels'", "another element type"});
}

TEST(Sample, TellsTheEpoch) {
  const auto dataset = computed({{{"x", Type::i64}}, {}}, 1, [](int64_t, const Sample& to) {
    to.as<int64_t>(0)[0] = to.epoch();
  });
  EXPECT_EQ(read_field<int64_t>(*dataset, 0, 5), (std::vector<int64_t>{5}));
}

TEST(SampleRoom, AlignsEveryFieldForNumbersOfAnyType) {
  const SampleRoom room(Fields{{{"a", Type::u8, {3}}, {"b", Type::f64, {2}}, {"c", Type::u8, {1}}},
                               {{"d", Type::i64}}});
  const std::vector<size_t> sizes = {3, 16, 1, 8};
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(room[i].size(), sizes[i]);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(room[i].data()) % alignof(double), 0U);
  }
}

TEST(WriteSample, NamesTheSampleThatCannotBeRead) {
  const auto dataset = computed({{{"x"}}, {}}, 5, [](int64_t index, const Sample&) {
    if (index == 3) throw std::runtime_error("the disk is gone");
  });
  const SampleRoom room(dataset->fields());
  write_sample(*dataset, 2, 0, room.memory());
  expect_bad_input([&] { write_sample(*dataset, 3, 0, room.memory()); },
                   {"sample 3 cannot be read: the disk is gone"});
}

TEST(WriteSample, LeavesOutOfMemoryAsItIs) {
  const auto dataset =
      computed({{{"x"}}, {}}, 1, [](int64_t, const Sample&) { throw std::bad_alloc(); });
  const SampleRoom room(dataset->fields());
  EXPECT_THROW(write_sample(*dataset, 0, 0, room.memory()), std::bad_alloc);
}

TEST(DatasetDigest, IsTheSameForEqualDataOnly) {
  const std::string digest = labelled<uint8_t>({2}, {1, 2, 3, 4}, {0, 1})->digest();
  EXPECT_EQ(digest.size(), 64U);
  EXPECT_EQ(labelled<uint8_t>({2}, {1, 2, 3, 4}, {0, 1})->digest(), digest);
  EXPECT_NE(labelled<uint8_t>({2}, {1, 2, 3, 5}, {0, 1})->digest(), digest);
  EXPECT_NE(labelled<uint8_t>({2}, {1, 2, 3, 4}, {0, 0})->digest(), digest);
  EXPECT_NE(labelled<uint8_t>({1, 2}, {1, 2, 3, 4}, {0, 1})->digest(), digest);
  EXPECT_NE(labelled<uint8_t>({2}, {1, 2, 3, 4}, {0, 1}, {"a", "c"})->digest(), digest);
  EXPECT_NE(labelled<uint8_t>({2}, {1, 2, 3, 4}, {0, 1}, {"a", "b", "c"})->digest(), digest);
  EXPECT_NE(labelled<uint8_t>({2}, {1, 2, 3, 4, 0, 0}, {0, 1, 0})->digest(), digest);
}

TEST(DatasetDigest, DiffersWithWhatFieldsAreCalledAndHold) {
  const std::set<std::string> digests = {
      digest_of_fields({{{"x", Type::i32, {2}}}, {}}),
      digest_of_fields({{{"z", Type::i32, {2}}}, {}}),
      digest_of_fields({{{"x", Type::f32, {2}}}, {}}),
      digest_of_fields({{{"x", Type::i64, {1}}}, {}}),
      digest_of_fields({{{"x", Type::i32, {1}}}, {{"y", Type::i32, {1}}}}),
      digest_of_fields({{{"x", Type::i32, {1}}, {"y", Type::i32, {1}}}, {}}),
      digest_of_fields({{{"y", Type::i32, {1}}, {"x", Type::i32, {1}}}, {}}),
      digest_of_fields({{{"x", Type::i32, {1}, {"a", "b"}}, {"y", Type::i32, {1}}}, {}}),
      digest_of_fields({{{"x", Type::i32, {1}}, {"y", Type::i32, {1}, {"a", "b"}}}, {}})};
  EXPECT_EQ(digests.size(), 9U);
}

TEST(DatasetDigest, TellsOneCategoryWithACommaFromTwoCategories) {
  EXPECT_NE(digest_of_fields({{{"x", Type::u8, {}, {"tench, a fish", "cat"}}}, {}}),
            digest_of_fields({{{"x", Type::u8, {}, {"tench", " a fish", "cat"}}}, {}}));
}

TEST(DatasetDigest, ReadsEachSampleAsEpochZeroShowsIt) {
  std::vector<int64_t> epochs;
  const auto dataset = computed({{{"x", Type::u8}}, {}}, 4, [&](int64_t index, const Sample& to) {
    to.as<uint8_t>(0)[0] = static_cast<uint8_t>(index);
    epochs.push_back(to.epoch());
  });
  dataset->digest();
  EXPECT_EQ(epochs, (std::vector<int64_t>{0, 0, 0, 0}));
}

TEST(DatasetDigest, ReadsASpreadOfSamplesWhereThereAreMoreThanTwoGibibytes) {
  std::vector<int64_t> read;
  const int64_t size = 10'000'000;
  const auto dataset = computed({{{"x", Type::u8, {256}}}, {}}, size,
                                [&](int64_t index, const Sample&) { read.push_back(index); });
  dataset->digest();
  ASSERT_EQ(read.size(), 65'536U);
  EXPECT_EQ(read.front(), 0);
  EXPECT_GT(read.back(), size - 200);
  EXPECT_TRUE(std::is_sorted(read.begin(), read.end()));
}

TEST(SpreadSamples, AreAllSamplesUpToTwoGibibytes) {
  std::vector<int64_t> all(2048);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(spread_samples(*sized(2048, kMebibyte), 10), all);
  EXPECT_EQ(spread_samples(*sized(2048, 1), 10), all);
  EXPECT_EQ(spread_samples(*sized(1, 3000 * kMebibyte), 10), (std::vector<int64_t>{0}));
}

TEST(SpreadSamples, AreEvenlySpreadAboveTwoGibibytes) {
  EXPECT_EQ(spread_samples(*sized(2049, kMebibyte), 3), (std::vector<int64_t>{0, 683, 1366}));
  const std::vector<int64_t> samples = spread_samples(*sized(1'000'003, kMebibyte), 1000);
  ASSERT_EQ(samples.size(), 1000U);
  EXPECT_EQ(samples.front(), 0);
  for (size_t i = 1; i < samples.size(); ++i) {
    EXPECT_GE(samples[i] - samples[i - 1], 1000);
    EXPECT_LE(samples[i] - samples[i - 1], 1001);
  }
  EXPECT_EQ(spread_samples(*sized(2049, kMebibyte), 5000).size(), 2049U);
}

TEST(SpreadSamples, AreEvenlySpreadOverMoreSamplesThanAProductOf64BitsHolds) {
  const int64_t size = int64_t{1} << 60;
  const std::vector<int64_t> samples = spread_samples(*sized(size, 1), 1 << 10);
  ASSERT_EQ(samples.size(), 1U << 10);
  for (size_t i = 0; i < samples.size(); ++i)
    EXPECT_EQ(samples[i], static_cast<int64_t>(i) * (int64_t{1} << 50));
}

TEST(CheckDataset, AcceptsADataSetThatCanBe) {
  check_dataset(*zeros({{{"x"}}, {}}, 1), "training");
  check_dataset(*labelled<float>({2, 1}, {1, 2}, {0}), "test");
}

TEST(CheckDataset, RefusesASampleThatIsNotWrittenInFull) {
  expect_bad_input([] { check_dataset(*computed({{{"x"}}, {}}, 3, write_nothing), "test"); },
                   {"field 'x' of sample 0 of the test split", "must write every element"});
}

TEST(CheckDataset, RefusesASampleThatDiffersWhenItIsWrittenAgain) {
  const auto count = std::make_shared<int>(0);
  const auto write = [count](int64_t index, const Sample& to) {
    to.as<float>(0)[0] = index == 2 ? static_cast<float>(++*count) : 0;
  };
  expect_bad_input([&] { check_dataset(*computed({{{"x"}}, {}}, 3, write), "training"); },
                   {"sample 2 of the training split"});
}

TEST(CheckDataset, RefusesADataSetThatCannotBe) {
  const auto check = [](const Fields& fields, int64_t size = 1) {
    check_dataset(*computed(fields, size, write_nothing), "training");
  };
  expect_bad_input([&] { check({{{"x"}}, {}}, 0); },
                   {"training split has 0 samples", "expected 1 to 100000000000"});
  expect_bad_input([&] { check({{{"x"}}, {}}, -2); }, {"training split has -2 samples"});
  expect_bad_input([&] { check({{}, {{"y"}}}); }, {"training split declares no input"});
  for (const Shape& shape : {Shape{0}, {3, 0, 2}, {-1}, {int64_t{1} << 40, int64_t{1} << 40}}) {
    expect_bad_input([&] { check({{{"x", Type::f32, shape}}, {}}); },
                     {"field 'x' of the training split", "shape " + to_string(shape)});
    expect_bad_input([&] { check({{{"x"}}, {{"y", Type::f32, shape}}}); }, {"field 'y'"});
  }
  expect_bad_input([&] { check({{{"x"}, {"z"}, {"x"}}, {}}); }, {"two fields named 'x'"});
  expect_bad_input([&] { check({{{"x"}}, {{"x"}}}); }, {"two fields named 'x'"});
}

TEST(InMemory, ReadsEachSampleOnceAndGivesTheSameSamples) {
  const auto dataset = labelled<float>({2}, {1, 2, 3, 4, 5, 6}, {0, 1, 1});
  const auto held = in_memory_if_small(dataset);
  EXPECT_EQ(dataset->writes(), 3);
  EXPECT_EQ(held->size(), 3);
  EXPECT_EQ(held->fields(), dataset->fields());
  EXPECT_EQ(read_field<float>(*held, 0), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read_labels(*held), (std::vector<int64_t>{0, 1, 1}));
  const std::string digest = held->digest();
  EXPECT_EQ(dataset->writes(), 3);
  EXPECT_EQ(digest, dataset->digest());
}

TEST(InMemory, KeepsWhatSamplesCountAs) {
  const auto held = in_memory_if_small(
      computed({{{"x"}}, {}}, 3, write_nothing, [](int64_t index) { return 10 * index; }));
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(held->items(i), 10 * i);
}

TEST(InMemory, NamesTheSampleThatCannotBeRead) {
  const auto dataset = computed({{{"x"}}, {}}, 3, [](int64_t index, const Sample&) {
    if (index == 1) throw std::runtime_error("torn");
  });
  expect_bad_input([&] { in_memory_if_small(dataset); }, {"sample 1 cannot be read: torn"});
}

TEST(InMemory, LeavesALargerDataSetAsItIs) {
  const auto large = sized(1025, kMebibyte);
  EXPECT_EQ(in_memory_if_small(large), large);
  EXPECT_EQ(large->writes(), 0);
  const auto many = sized(int64_t{1} << 62, 1);
  EXPECT_EQ(in_memory_if_small(many), many);
}

}  // namespace
}  // namespace lockstep::data
