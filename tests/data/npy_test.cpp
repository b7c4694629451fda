#include "data/npy.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>

#include "base/atomic_file.h"
#include "data/dataset.h"
#include "data/written_files.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

std::vector<float> all_floats(const NpyArray& array) {
  const int64_t count = elements(array.shape());
  std::vector<float> values(static_cast<size_t>(array.samples() * count));
  for (int64_t i = 0; i < array.samples(); ++i)
    array.write(
        i, std::span(values).subspan(static_cast<size_t>(i * count), static_cast<size_t>(count)));
  return values;
}

template <typename T>
std::vector<float> converted(const std::string& type, const std::vector<T>& values) {
  const TemporaryFolder folder;
  const auto path =
      folder.write("x.npy", npy(type, {static_cast<int64_t>(values.size())}, raw(values)));
  return all_floats(NpyArray(path));
}

std::vector<int64_t> labels_in(const std::string& type, const std::vector<int64_t>& shape,
                               const std::string& contents) {
  const TemporaryFolder folder;
  return NpyArray(folder.write("y.npy", npy(type, shape, contents))).labels();
}

// A file larger than 1 GiB of zeros, which take no room on the disk.
struct LargeFile {
  static constexpr int64_t kSamples = 1200;
  TemporaryFolder folder;
  std::filesystem::path path = folder / "x.npy";
  std::string header;

  LargeFile(const std::string& type, int64_t values) {
    header = npy(type, {kSamples, values}, "");
    folder.write("x.npy", header);
    std::filesystem::resize_file(path, header.size() + kSamples * kSampleBytes);
  }
  void put(int64_t sample, const std::string& bytes) const {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(header.size()) + sample * kSampleBytes);
    file << bytes;
  }
  bool is_mapped() const { return has(read_file("/proc/self/maps"), path.string()); }

  static constexpr int64_t kSampleBytes = int64_t{1} << 20;
};

TEST(Npy, KeepsTheShapeOfAnyRank) {
  const TemporaryFolder folder;
  Shape shape;
  for (const int64_t dimension : {2, 3, 2, 4, 2}) {
    shape.push_back(dimension);
    std::vector<float> values(static_cast<size_t>(elements(shape)));
    std::iota(values.begin(), values.end(), 1.0F);
    const NpyArray array(folder.write("x.npy", npy("<f4", shape, raw(values))));
    EXPECT_EQ(array.samples(), 2);
    EXPECT_EQ(array.shape(), Shape(shape.begin() + 1, shape.end()));
    EXPECT_EQ(all_floats(array), values);
  }
}

TEST(Npy, KeepsBytesAsBytes) {
  const TemporaryFolder folder;
  const NpyArray array(folder.write("x.npy", npy("|u1", {2, 2}, raw<uint8_t>({0, 7, 255, 1}))));
  EXPECT_TRUE(array.has_bytes());
  std::vector<uint8_t> bytes(2);
  array.write(0, std::span(bytes));
  EXPECT_EQ(bytes, (std::vector<uint8_t>{0, 7}));
  array.write(1, std::span(bytes));
  EXPECT_EQ(bytes, (std::vector<uint8_t>{255, 1}));
  EXPECT_FALSE(NpyArray(folder.write("x.npy", npy("|i1", {1}, "a"))).has_bytes());
  EXPECT_FALSE(NpyArray(folder.write("x.npy", npy("|b1", {1}, "\x01"))).has_bytes());
}

TEST(Npy, ConvertsOtherNumbersToFloats) {
  const std::vector<float> expected = {0, 1, 100};
  EXPECT_EQ(converted<double>("<f8", {0, 1, 100}), expected);
  EXPECT_EQ(converted<int8_t>("|i1", {0, 1, 100}), expected);
  EXPECT_EQ(converted<int16_t>("<i2", {0, 1, 100}), expected);
  EXPECT_EQ(converted<int32_t>("<i4", {0, 1, 100}), expected);
  EXPECT_EQ(converted<int64_t>("<i8", {0, 1, 100}), expected);
  EXPECT_EQ(converted<uint8_t>("|u1", {0, 1, 100}), expected);
  EXPECT_EQ(converted<uint16_t>("<u2", {0, 1, 100}), expected);
  EXPECT_EQ(converted<uint32_t>("<u4", {0, 1, 100}), expected);
  EXPECT_EQ(converted<uint64_t>("<u8", {0, 1, 100}), expected);
  EXPECT_EQ(converted<uint8_t>("|b1", {0, 1, 1}), (std::vector<float>{0, 1, 1}));
  EXPECT_EQ(converted<int8_t>("|i1", {-128}), (std::vector<float>{-128}));
}

TEST(Npy, ConvertsHalves) {
  // 1, -2, the largest (65504), the smallest normal (2^-14), the smallest (2^-24), -0.
  EXPECT_EQ(converted<uint16_t>("<f2", {0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x8000}),
            (std::vector<float>{1, -2, 65504, 0x1p-14F, 0x1p-24F, 0}));
}

TEST(Npy, RefusesValuesThatAreNotFiniteWhenTheyAreRead) {
  const TemporaryFolder folder;
  const float bad = std::numeric_limits<float>::infinity();
  const NpyArray array(
      folder.write("x.npy", npy("<f4", {4, 2}, raw<float>({1, 2, 3, 4, 5, bad, 7, 8}))));
  std::vector<float> values(2);
  array.write(3, std::span(values));
  EXPECT_EQ(values, (std::vector<float>{7, 8}));
  expect_bad_input([&] { array.write(2, std::span(values)); },
                   {array.path().string(), "inf", "sample 2", "np.nan_to_num"});
  EXPECT_THROW(converted<float>("<f4", {NAN}), BadInput);
  EXPECT_THROW(converted<uint16_t>("<f2", {0x7c00}), BadInput);
  EXPECT_THROW(converted<double>("<f8", {1e300}), BadInput);
}

TEST(Npy, RefusesOtherTypesWithTheCure) {
  const TemporaryFolder folder;
  for (const std::string type : {"<c8", "<M8", "<f16"}) {
    const auto path =
        folder.write("x.npy", npy(type, {1}, std::string(type == "<f16" ? 16 : 8, '\0')));
    expect_bad_input([&] { const NpyArray array(path); },
                     {path.string(), type.substr(1), "x.astype('float32')"});
  }
  for (const std::string type : {"|O", "", "<", "f", "<fx", "<f-4", "<f99999999999999999999"}) {
    const auto path = folder.write("x.npy", npy(type, {1}, "12345678"));
    expect_bad_input([&] { const NpyArray array(path); }, {path.string(), "x.astype('float32')"});
  }
}

TEST(Npy, ReadsGzipTheSame) {
  const TemporaryFolder folder;
  const NpyArray array(folder.write("x.npy", gzip(npy("<f4", {2, 2}, raw<float>({1, 2, 3, 4})))));
  EXPECT_EQ(all_floats(array), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Npy, MapsAFileLargerThanOneGibibyte) {
  const LargeFile file("|u1", LargeFile::kSampleBytes);
  file.put(0, "first");
  file.put(LargeFile::kSamples - 1, "last");
  {
    const NpyArray array(file.path);
    EXPECT_TRUE(file.is_mapped());
    EXPECT_EQ(array.samples(), LargeFile::kSamples);
    std::vector<uint8_t> sample(LargeFile::kSampleBytes);
    array.write(0, std::span(sample));
    EXPECT_EQ(std::string(sample.begin(), sample.begin() + 6), std::string("first\0", 6));
    array.write(LargeFile::kSamples - 1, std::span(sample));
    EXPECT_EQ(std::string(sample.begin(), sample.begin() + 5), std::string("last\0", 5));
    array.write(1, std::span(sample));
    EXPECT_EQ(std::count(sample.begin(), sample.end(), 0), LargeFile::kSampleBytes);
  }
  EXPECT_FALSE(file.is_mapped());
}

TEST(Npy, ReadsASmallerFileIntoMemory) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.npy", npy("<f4", {2}, raw<float>({1, 2})));
  const NpyArray array(path);
  EXPECT_FALSE(has(read_file("/proc/self/maps"), path.string()));
  folder.write("x.npy", "");
  EXPECT_EQ(all_floats(array), (std::vector<float>{1, 2}));
}

TEST(Npy, ReadsNumbersThatLieWhereTheirTypeMayNot) {
  const LargeFile file("<f8", LargeFile::kSampleBytes / 8);
  ASSERT_NE(file.header.size() % 8, 0U) << "an aligned header tests nothing";
  file.put(7, raw<double>({0.5, -1.25, 3}));
  const NpyArray array(file.path);
  ASSERT_TRUE(file.is_mapped());
  std::vector<float> sample(LargeFile::kSampleBytes / 8);
  array.write(7, std::span(sample));
  EXPECT_EQ(std::vector<float>(sample.begin(), sample.begin() + 4),
            (std::vector<float>{0.5F, -1.25F, 3, 0}));
  file.put(8, raw<double>({1, NAN}));
  expect_bad_input([&] { array.write(8, std::span(sample)); },
                   {file.path.string(), "nan", "sample 8"});
}

TEST(Npy, RefusesALargeFileOfTheWrongLength) {
  const LargeFile file("|u1", LargeFile::kSampleBytes);
  const auto size = std::filesystem::file_size(file.path);
  std::filesystem::resize_file(file.path, size - 1);
  expect_bad_input([&] { const NpyArray array(file.path); }, {file.path.string(), "truncated"});
  std::filesystem::resize_file(file.path, size + 1);
  expect_bad_input([&] { const NpyArray array(file.path); },
                   {file.path.string(), "trailing bytes"});
}

TEST(NpyLabels, TakesAnyWholeNumbers) {
  const std::vector<int64_t> expected = {5, 0};
  EXPECT_EQ(labels_in("|i1", {2}, raw<int8_t>({5, 0})), expected);
  EXPECT_EQ(labels_in("<i2", {2}, raw<int16_t>({5, 0})), expected);
  EXPECT_EQ(labels_in("<i4", {2}, raw<int32_t>({5, 0})), expected);
  EXPECT_EQ(labels_in("<i8", {2}, raw<int64_t>({5, 0})), expected);
  EXPECT_EQ(labels_in("|u1", {2}, raw<uint8_t>({5, 0})), expected);
  EXPECT_EQ(labels_in("<u2", {2}, raw<uint16_t>({5, 0})), expected);
  EXPECT_EQ(labels_in("<u4", {2}, raw<uint32_t>({5, 0})), expected);
  EXPECT_EQ(labels_in("<u8", {2}, raw<uint64_t>({5, 0})), expected);
  EXPECT_EQ(labels_in("|b1", {2}, raw<uint8_t>({1, 0})), (std::vector<int64_t>{1, 0}));
}

TEST(NpyLabels, TakesAColumnOfOneNumberASample) {
  EXPECT_EQ(labels_in("<i8", {3, 1}, raw<int64_t>({2, 0, 1})), (std::vector<int64_t>{2, 0, 1}));
  EXPECT_EQ(labels_in("<i8", {2, 1, 1}, raw<int64_t>({2, 0})), (std::vector<int64_t>{2, 0}));
}

TEST(NpyLabels, RefusesNumbersThatAreNoClass) {
  expect_bad_input(
      [] { labels_in("<i8", {4}, raw<int64_t>({0, 1, -1, 0})); },
      {"y.npy", "label -1 of sample 2", "np.unique", "data.options.targets = \"numbers\""});
  expect_bad_input([] { labels_in("<i8", {4}, raw<int64_t>({2000000000, 1, 1, 0})); },
                   {"y.npy", "label 2000000000 of sample 0"});
  expect_bad_input([] { labels_in("<i8", {2}, raw<int64_t>({999'999, 1'000'000})); },
                   {"y.npy", "label 1000000 of sample 1", "at most 999999"});
}

TEST(NpyLabels, NamesALabelThatNeeds64BitsWithoutASign) {
  expect_bad_input([] { labels_in("<u8", {4}, raw<uint64_t>({0, 1, 18446744073709551615U, 0})); },
                   {"y.npy", "label 18446744073709551615 of sample 2"});
}

TEST(NpyLabels, RefusesFloatsTextAndOneHot) {
  expect_bad_input([] { labels_in("<f4", {4}, raw<float>({0, 1, 1, 0})); },
                   {"y.npy", "f4", "y.astype('int64')"});
  expect_bad_input([] { labels_in("<i8", {2, 2}, raw<int64_t>({0, 1, 1, 0})); },
                   {"y.npy", "2 x 2", "y.argmax(1)"});
  expect_bad_input([] { labels_in("<f4", {2, 2}, raw<float>({0, 1, 1, 0})); },
                   {"y.npy", "2 x 2", "y.argmax(1)"});
  expect_bad_input([] { labels_in("<U1", {4}, std::string(16, '\0')); },
                   {"y.npy", "'U1' is text", "np.unique"});
}

}  // namespace
}  // namespace lockstep::data
