#include "data/npy.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "data/written_files.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

// x.npy and y.npy of four samples.
struct Folder {
  TemporaryFolder files;
  SourceOptions options;

  Folder() {
    x(npy("<f4", {4, 2}, raw<float>({1, 2, 3, 4, 5, 6, 7, 8})));
    files.write("y.npy", npy("<i8", {4}, raw<int64_t>({0, 2, 1, 2})));
    options.test_fraction = 0.25;
  }
  void x(const std::string& contents) const { files.write("x.npy", contents); }
  void y(const std::string& contents) const { files.write("y.npy", contents); }
  Splits load() const { return load_npy(files.path(), options); }
};

const std::vector<float>& floats(const NpySamples& samples) {
  return std::get<std::vector<float>>(samples.values);
}

template <typename T>
std::vector<float> converted(const std::string& type, const std::vector<T>& values) {
  const TemporaryFolder folder;
  const auto path =
      folder.write("x.npy", npy(type, {static_cast<int64_t>(values.size())}, raw(values)));
  return floats(read_npy_samples(path));
}

TEST(Npy, HoldsOutAPartChosenBySeed) {
  const Folder folder;
  const Splits splits = folder.load();
  EXPECT_EQ(splits.train.size(), 3);
  EXPECT_EQ(splits.test.size(), 1);
  EXPECT_EQ(splits.train.class_names, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(folder.load().test.values, splits.test.values);
}

TEST(Npy, TakesTheTestFilesWhereTheyAre) {
  const Folder folder;
  folder.files.write("x_test.npy", npy("<f4", {1, 2}, raw<float>({9, 10})));
  folder.files.write("y_test.npy", npy("|u1", {1}, raw<uint8_t>({3})));
  const Splits splits = folder.load();
  EXPECT_EQ(splits.train.size(), 4);
  EXPECT_EQ(std::get<std::vector<float>>(splits.test.values), (std::vector<float>{9, 10}));
  EXPECT_EQ(splits.train.classes(), 4);
  EXPECT_EQ(splits.test.class_names, splits.train.class_names);
}

TEST(Npy, KeepsTheShapeOfAnyRank) {
  const TemporaryFolder folder;
  Shape shape;
  for (const int64_t dimension : {2, 3, 2, 4, 2}) {
    shape.push_back(dimension);
    std::vector<float> values(static_cast<size_t>(elements(shape)));
    std::iota(values.begin(), values.end(), 1.0F);
    const auto path = folder.write("x.npy", npy("<f4", shape, raw(values)));
    const NpySamples samples = read_npy_samples(path);
    EXPECT_EQ(samples.count, 2);
    EXPECT_EQ(samples.shape, shape.size() == 1 ? Shape{1} : Shape(shape.begin() + 1, shape.end()));
    EXPECT_EQ(floats(samples), values);
  }
}

TEST(Npy, ReadsVersionsOneToThree) {
  const TemporaryFolder folder;
  for (const int version : {1, 2, 3}) {
    const auto path = folder.write("x.npy", npy("<f4", {2}, raw<float>({1, 2}), version));
    EXPECT_EQ(floats(read_npy_samples(path)), (std::vector<float>{1, 2}));
  }
  const auto path = folder.write("x.npy", npy("<f4", {2}, raw<float>({1, 2}), 4));
  expect_bad_input([&] { read_npy_samples(path); }, {path.string(), "version 4"});
}

TEST(Npy, ReadsAHeaderOfPythonTwo) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "x.npy", npy_raw("{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2L, 1L)}",
                       raw<float>({1, 2})));
  EXPECT_EQ(read_npy_samples(path).shape, (Shape{1}));
}

TEST(Npy, KeepsBytesAsBytes) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.npy", npy("|u1", {3}, raw<uint8_t>({0, 7, 255})));
  EXPECT_EQ(std::get<std::vector<uint8_t>>(read_npy_samples(path).values),
            (std::vector<uint8_t>{0, 7, 255}));
}

TEST(Npy, ConvertsOtherNumbersToFloats) {
  const std::vector<float> expected = {0, 1, 100};
  EXPECT_EQ(converted<double>("<f8", {0, 1, 100}), expected);
  EXPECT_EQ(converted<int8_t>("|i1", {0, 1, 100}), expected);
  EXPECT_EQ(converted<int16_t>("<i2", {0, 1, 100}), expected);
  EXPECT_EQ(converted<int32_t>("<i4", {0, 1, 100}), expected);
  EXPECT_EQ(converted<int64_t>("<i8", {0, 1, 100}), expected);
  EXPECT_EQ(converted<uint16_t>("<u2", {0, 1, 100}), expected);
  EXPECT_EQ(converted<uint32_t>("<u4", {0, 1, 100}), expected);
  EXPECT_EQ(converted<uint8_t>("|b1", {0, 1, 1}), (std::vector<float>{0, 1, 1}));
  EXPECT_EQ(converted<int8_t>("|i1", {-128}), (std::vector<float>{-128}));
}

TEST(Npy, ConvertsHalves) {
  // 1, -2, the largest (65504), the smallest normal (2^-14), the smallest (2^-24), -0.
  EXPECT_EQ(converted<uint16_t>("<f2", {0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x8000}),
            (std::vector<float>{1, -2, 65504, 0x1p-14F, 0x1p-24F, 0}));
}

TEST(Npy, RefusesValuesThatAreNotFinite) {
  const Folder folder;
  const float bad = std::numeric_limits<float>::infinity();
  folder.x(npy("<f4", {4, 2}, raw<float>({1, 2, 3, 4, 5, bad, 7, 8})));
  expect_bad_input([&] { folder.load(); }, {"x.npy", "inf", "sample 2", "np.nan_to_num"});
  EXPECT_THROW(converted<float>("<f4", {NAN}), BadInput);
  EXPECT_THROW(converted<uint16_t>("<f2", {0x7c00}), BadInput);
  EXPECT_THROW(converted<double>("<f8", {1e300}), BadInput);
}

TEST(Npy, RefusesOtherTypesWithTheCure) {
  const TemporaryFolder folder;
  for (const std::string type : {"<c8", "<u8", "<M8", "<f16"}) {
    const auto path =
        folder.write("x.npy", npy(type, {1}, std::string(type == "<f16" ? 16 : 8, '\0')));
    expect_bad_input([&] { read_npy_samples(path); },
                     {path.string(), type.substr(1), "x.astype('float32')"});
  }
  for (const std::string type : {"|O", "", "<", "f", "<fx", "<f-4", "<f99999999999999999999"}) {
    const auto path = folder.write("x.npy", npy(type, {1}, "12345678"));
    expect_bad_input([&] { read_npy_samples(path); }, {path.string(), "x.astype('float32')"});
  }
}

TEST(Npy, RefusesStructuredArrays) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "x.npy",
      npy_raw("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234"));
  expect_bad_input([&] { read_npy_samples(path); }, {path.string(), "structured"});
}

TEST(Npy, RefusesBigEndianWithTheCure) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.npy", npy(">f4", {1}, "1234"));
  expect_bad_input([&] { read_npy_samples(path); }, {path.string(), "big-endian", "astype('<f4')"});
}

TEST(Npy, RefusesFortranOrderWithTheCure) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "x.npy", npy_raw("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "1234"));
  expect_bad_input([&] { read_npy_samples(path); },
                   {path.string(), "Fortran order", "np.ascontiguousarray(x)"});
}

TEST(Npy, RefusesMalformedHeaders) {
  const TemporaryFolder folder;
  for (const std::string dictionary :
       {"", "{", "{}", "nonsense", "{'descr': '<f4'}", "{'descr': '<f4", "{'descr': 4}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, x), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 1, }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}"}) {
    const auto path = folder.write("x.npy", npy_raw(dictionary, "1234"));
    expect_bad_input([&] { read_npy_samples(path); }, {path.string(), "malformed", "np.save"});
  }
}

TEST(Npy, RefusesAFileThatIsNotNpy) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.npy", "PK\x03\x04 an .npz, say");
  expect_bad_input([&] { read_npy_samples(path); }, {path.string(), "not an .npy file"});
  folder.write("x.npy", "\x93NUM");
  expect_bad_input([&] { read_npy_samples(path); }, {path.string(), "truncated"});
}

TEST(Npy, RefusesAFileOfTheWrongLength) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.npy", npy("<f4", {2}, "1234567"));
  expect_bad_input([&] { read_npy_samples(path); }, {path.string(), "truncated", "8", "7"});
  folder.write("x.npy", npy("<f4", {2}, "123456789"));
  expect_bad_input([&] { read_npy_samples(path); }, {path.string(), "trailing bytes"});
}

TEST(Npy, ChecksAHostileShapeBeforeAskingForMemory) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.npy", npy("<f4", {1000000, 1000000}, "1234"));
  expect_bad_input([&] { read_npy_samples(path); }, {path.string(), "truncated"});
  folder.write("x.npy", npy("<f4", {int64_t{1} << 62, 4}, "1234"));
  expect_bad_input([&] { read_npy_samples(path); }, {path.string(), "does not fit"});
  std::string file = npy_raw("{}", "", 2);
  file[11] = '\x7f';
  folder.write("x.npy", file);
  expect_bad_input([&] { read_npy_samples(path); }, {path.string(), "malformed"});
}

TEST(Npy, RefusesAnArrayWithoutSamples) {
  const TemporaryFolder folder;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{0, 3}, {3, 0}}) {
    const auto path = folder.write("x.npy", npy("<f4", shape, ""));
    expect_bad_input([&] { read_npy_samples(path); }, {path.string(), "no samples"});
  }
  const auto path = folder.write("x.npy", npy("<f4", {}, "1234"));
  expect_bad_input([&] { read_npy_samples(path); }, {path.string(), "no samples"});
}

TEST(NpyLabels, TakesAnyWholeNumbers) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& type, const std::string& contents) {
    return read_npy_labels(folder.write("y.npy", npy(type, {2}, contents)));
  };
  const std::vector<int32_t> expected = {5, 0};
  EXPECT_EQ(read("|i1", raw<int8_t>({5, 0})), expected);
  EXPECT_EQ(read("<i2", raw<int16_t>({5, 0})), expected);
  EXPECT_EQ(read("<i4", raw<int32_t>({5, 0})), expected);
  EXPECT_EQ(read("<i8", raw<int64_t>({5, 0})), expected);
  EXPECT_EQ(read("|u1", raw<uint8_t>({5, 0})), expected);
  EXPECT_EQ(read("<u2", raw<uint16_t>({5, 0})), expected);
  EXPECT_EQ(read("<u4", raw<uint32_t>({5, 0})), expected);
  EXPECT_EQ(read("<u8", raw<uint64_t>({5, 0})), expected);
}

TEST(NpyLabels, RefusesNumbersThatAreNoClass) {
  const Folder folder;
  folder.y(npy("<i8", {4}, raw<int64_t>({0, 1, -1, 0})));
  expect_bad_input([&] { folder.load(); }, {"y.npy", "label -1 of sample 2", "np.unique"});
  folder.y(npy("<u8", {4}, raw<uint64_t>({0, 1, 18446744073709551615U, 0})));
  expect_bad_input([&] { folder.load(); }, {"y.npy", "label 18446744073709551615 of sample 2"});
  folder.y(npy("<i8", {4}, raw<int64_t>({2000000000, 1, 1, 0})));
  expect_bad_input([&] { folder.load(); }, {"y.npy", "label 2000000000 of sample 0"});
}

TEST(NpyLabels, RefusesFloatsAndOneHot) {
  const Folder folder;
  folder.y(npy("<f4", {4}, raw<float>({0, 1, 1, 0})));
  expect_bad_input([&] { folder.load(); }, {"y.npy", "f4", "y.astype('int64')"});
  folder.y(npy("<i8", {4, 1}, raw<int64_t>({0, 1, 1, 0})));
  expect_bad_input([&] { folder.load(); }, {"y.npy", "4 x 1", "y.ravel()"});
  folder.y(npy("<U1", {4}, std::string(16, '\0')));
  expect_bad_input([&] { folder.load(); }, {"y.npy", "'U1' is text", "np.unique"});
}

TEST(NpyFolder, RefusesDifferentCounts) {
  const Folder folder;
  folder.y(npy("<i8", {3}, raw<int64_t>({0, 1, 1})));
  expect_bad_input([&] { folder.load(); }, {"x.npy has 4 samples", "y.npy has 3 labels"});
}

TEST(NpyFolder, RefusesOneTestFileWithoutTheOther) {
  const Folder folder;
  folder.files.write("x_test.npy", npy("<f4", {1, 2}, raw<float>({9, 10})));
  expect_bad_input([&] { folder.load(); }, {"has x_test.npy but not y_test.npy"});
}

TEST(NpyFolder, RefusesATestSplitOfAnotherKind) {
  const Folder folder;
  folder.files.write("y_test.npy", npy("<i8", {1}, raw<int64_t>({0})));
  folder.files.write("x_test.npy", npy("<f4", {1, 1}, raw<float>({9})));
  expect_bad_input([&] { folder.load(); }, {"x.npy are 2", "x_test.npy 1"});
  folder.files.write("x_test.npy", npy("|u1", {1, 2}, raw<uint8_t>({9, 10})));
  expect_bad_input([&] { folder.load(); }, {"uint8", "same dtype"});
}

TEST(NpyFolder, MovesTheChannelsOfImagesToTheFront) {
  Folder folder;
  folder.options.layout = Layout::channels_last;
  folder.options.test_fraction = 0.5;
  folder.y(npy("<i8", {2}, raw<int64_t>({0, 1})));
  // Two images of 1 x 2 pixels with 3 channels: the same twice, as either may be held out.
  folder.x(npy("|u1", {2, 1, 2, 3}, "abcdefabcdef"));
  const Splits splits = folder.load();
  EXPECT_EQ(splits.train.shape, (Shape{3, 1, 2}));
  const auto& values = std::get<std::vector<uint8_t>>(splits.train.values);
  EXPECT_EQ(std::string(values.begin(), values.end()), "adbecf");
}

TEST(NpyFolder, MovesTheChannelsOfEachVideoFrame) {
  Folder folder;
  folder.options.layout = Layout::channels_last;
  folder.options.test_fraction = 0.5;
  folder.y(npy("<i8", {2}, raw<int64_t>({0, 1})));
  folder.x(npy("|u1", {2, 2, 1, 2, 2}, "abcdABCDabcdABCD"));
  const Splits splits = folder.load();
  EXPECT_EQ(splits.train.shape, (Shape{2, 2, 1, 2}));
  const auto& values = std::get<std::vector<uint8_t>>(splits.train.values);
  EXPECT_EQ(std::string(values.begin(), values.end()), "acbdACBD");
}

TEST(NpyFolder, LeavesSeriesAsTheyAreInEitherLayout) {
  Folder folder;
  folder.x(npy("|u1", {4, 1, 2}, "abababab"));
  folder.options.layout = Layout::channels_last;
  EXPECT_EQ(folder.load().train.shape, (Shape{1, 2}));
}

}  // namespace
}  // namespace lockstep::data
