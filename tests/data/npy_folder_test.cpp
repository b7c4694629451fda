#include <fstream>
#include <limits>

#include "data/datasets.h"
#include "data/some_datasets.h"
#include "data/training_data.h"
#include "data/written_files.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

// x.npy and y.npy of four samples.
struct NpyFolder {
  TemporaryFolder files;
  DataOptions options{.name = "npy:" + files.path().string(), .hold_out = {.test_fraction = 0.25}};

  NpyFolder() {
    x(npy("<f4", {4, 2}, raw<float>({1, 2, 3, 4, 5, 6, 7, 8})));
    y(npy("<i8", {4}, raw<int64_t>({0, 2, 1, 2})));
  }
  void x(const std::string& contents) const { files.write("x.npy", contents); }
  void y(const std::string& contents) const { files.write("y.npy", contents); }
  void x_test(const std::string& contents) const { files.write("x_test.npy", contents); }
  void y_test(const std::string& contents) const { files.write("y_test.npy", contents); }
  void option(const std::string& key, const std::string& value) {
    options.options = {{key, value}};
  }
  Splits load() const { return load_splits(options); }

  // All samples, none of them held out.
  std::shared_ptr<const Dataset> load_all() const {
    const Splits splits = load_dataset(options.name, options.options);
    EXPECT_EQ(splits.test, nullptr);
    return splits.train;
  }
};

const Field& target_of(const std::shared_ptr<const Dataset>& dataset) {
  return dataset->fields().targets.at(0);
}

TEST(NpyFolder, HoldsOutAPartChosenBySeed) {
  const NpyFolder folder;
  const Splits splits = folder.load();
  EXPECT_EQ(splits.train->size(), 3);
  EXPECT_EQ(splits.test->size(), 1);
  EXPECT_EQ(class_names_of(*splits.train), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(read_field<float>(*folder.load().test, 0), read_field<float>(*splits.test, 0));
}

TEST(NpyFolder, TakesTheTestFilesWhereTheyAre) {
  const NpyFolder folder;
  folder.x_test(npy("<f4", {1, 2}, raw<float>({9, 10})));
  folder.y_test(npy("|u1", {1}, raw<uint8_t>({3})));
  const Splits splits = folder.load();
  EXPECT_EQ(splits.train->size(), 4);
  EXPECT_EQ(read_field<float>(*splits.test, 0), (std::vector<float>{9, 10}));
  EXPECT_EQ(read_labels(*splits.test), (std::vector<int64_t>{3}));
  EXPECT_EQ(class_names_of(*splits.train), (std::vector<std::string>{"0", "1", "2", "3"}));
  EXPECT_EQ(class_names_of(*splits.test), class_names_of(*splits.train));
}

TEST(NpyFolder, TakesTheValidationFilesWhereTheyAre) {
  const NpyFolder folder;
  folder.files.write("x_val.npy", npy("<f4", {2, 2}, raw<float>({9, 10, 11, 12})));
  expect_bad_input([&] { folder.load(); }, {"has x_val.npy but not y_val.npy"});
  folder.files.write("y_val.npy", npy("|u1", {2}, raw<uint8_t>({0, 3})));
  const Splits splits = folder.load();
  EXPECT_EQ(splits.train->size(), 3);
  EXPECT_EQ(splits.test->size(), 1);
  EXPECT_EQ(read_labels(*splits.validation), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(class_names_of(*splits.train), class_names_of(*splits.validation));
  ASSERT_EQ(splits.warnings.size(), 1U);
  EXPECT_NE(splits.warnings[0].find("class 3 is in y_val.npy but not in y.npy"), std::string::npos);
}

TEST(NpyFolder, ReadsFloatsAndLabels) {
  const auto dataset = NpyFolder().load_all();
  EXPECT_EQ(dataset->fields(), (Fields{{{"x", Type::f32, {2}}}, {label_field({"0", "1", "2"})}}));
  EXPECT_EQ(read_field<float>(*dataset, 0), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(read_labels(*dataset), (std::vector<int64_t>{0, 2, 1, 2}));
}

TEST(NpyFolder, TakesOneNumberASampleAsARowOfOne) {
  const NpyFolder folder;
  folder.x(npy("<i2", {4}, raw<int16_t>({1, 2, 3, 4})));
  const auto dataset = folder.load_all();
  EXPECT_EQ(dataset->fields().inputs.at(0), (Field{"x", Type::f32, {1}}));
  EXPECT_EQ(read_field<float>(*dataset, 0), (std::vector<float>{1, 2, 3, 4}));
}

TEST(NpyFolder, ReadsSamplesOfAFileLargerThanOneGibibyte) {
  const NpyFolder folder;
  const std::string header = npy("|u1", {1200, 1024, 1024}, "");
  folder.x(header);
  std::filesystem::resize_file(folder.files / "x.npy", header.size() + (size_t{1200} << 20));
  std::fstream(folder.files / "x.npy", std::ios::in | std::ios::out | std::ios::binary)
          .seekp(-3, std::ios::end)
      << "end";
  folder.y(npy("|u1", {1200}, std::string(1199, '\0') + '\1'));
  const Splits splits = folder.load();
  EXPECT_EQ(splits.train->size(), 900);
  const auto dataset = folder.load_all();
  ASSERT_EQ(dataset->size(), 1200);
  EXPECT_EQ(dataset->fields().inputs.at(0), (Field{"x", Type::u8, {1024, 1024}}));
  const SampleRoom room(dataset->fields());
  write_sample(*dataset, 0, 0, room.memory());
  EXPECT_EQ(room[0].back(), std::byte{0});
  EXPECT_EQ(room[1].front(), std::byte{0});
  write_sample(*dataset, 1199, 0, room.memory());
  EXPECT_EQ(room[0].back(), std::byte{'d'});
  EXPECT_EQ(room[1].front(), std::byte{1});
}

TEST(NpyFolder, NamesTheSampleThatHasNoFiniteNumber) {
  const NpyFolder folder;
  const float bad = std::numeric_limits<float>::quiet_NaN();
  folder.x(npy("<f4", {4, 2}, raw<float>({1, 2, 3, 4, 5, bad, 7, 8})));
  auto dataset = folder.load_all();
  expect_bad_input([&] { read_field<float>(*dataset, 0); },
                   {"sample 2 cannot be read", "x.npy", "nan", "np.nan_to_num"});
  folder.x(npy("<f4", {4}, raw<float>({1, 2, 3, 4})));
  folder.y(npy("<f4", {4}, raw<float>({1, bad, 3, 4})));
  dataset = folder.load_all();
  expect_bad_input([&] { read_field<float>(*dataset, 0); },
                   {"sample 1 cannot be read", "y.npy", "nan"});
}

TEST(NpyFolder, RefusesLabelsThatAreNoClass) {
  const NpyFolder folder;
  folder.y(npy("<i8", {4}, raw<int64_t>({0, 1, -1, 0})));
  expect_bad_input([&] { folder.load(); }, {"y.npy", "label -1 of sample 2", "np.unique"});
  folder.y(npy("<U1", {4}, std::string(16, '\0')));
  expect_bad_input([&] { folder.load(); }, {"y.npy", "'U1' is text", "np.unique"});
  folder.y(npy("<i8", {4}, raw<int64_t>({0, 1, 1, 0})));
  folder.x_test(npy("<f4", {2, 2}, raw<float>({1, 2, 3, 4})));
  folder.y_test(npy("<i8", {2}, raw<int64_t>({0, -7})));
  expect_bad_input([&] { folder.load(); }, {"y_test.npy", "label -7 of sample 1"});
}

TEST(NpyFolder, RefusesDifferentCounts) {
  const NpyFolder folder;
  folder.y(npy("<i8", {3}, raw<int64_t>({0, 1, 1})));
  expect_bad_input([&] { folder.load(); }, {"x.npy has 4 samples", "y.npy has 3 targets"});
}

TEST(NpyFolder, RefusesOneTestFileWithoutTheOther) {
  const NpyFolder folder;
  folder.x_test(npy("<f4", {1, 2}, raw<float>({9, 10})));
  expect_bad_input([&] { folder.load(); }, {"has x_test.npy but not y_test.npy"});
  std::filesystem::remove(folder.files / "x_test.npy");
  folder.y_test(npy("<i8", {1}, raw<int64_t>({0})));
  expect_bad_input([&] { folder.load(); }, {"has y_test.npy but not x_test.npy"});
}

TEST(NpyFolder, RefusesATestSplitOfAnotherKind) {
  const NpyFolder folder;
  folder.y_test(npy("<i8", {1}, raw<int64_t>({0})));
  folder.x_test(npy("<f4", {1, 1}, raw<float>({9})));
  expect_bad_input([&] { folder.load(); }, {"x.npy are 2", "x_test.npy 1"});
  folder.x_test(npy("|u1", {1, 2}, raw<uint8_t>({9, 10})));
  expect_bad_input([&] { folder.load(); }, {"uint8", "same dtype"});
  folder.x_test(npy("<f4", {1, 2}, raw<float>({9, 10})));
  folder.y_test(npy("<f4", {1}, raw<float>({0})));
  expect_bad_input([&] { folder.load(); }, {"y_test.npy", "y.astype('int64')"});
  folder.y(npy("<f4", {4, 2}, raw<float>({1, 2, 3, 4, 5, 6, 7, 8})));
  expect_bad_input([&] { folder.load(); }, {"'y' of type f32 and shape 2", "one number"});
}

TEST(NpyTargets, AreNumbersWhereTheyAreFloats) {
  const NpyFolder folder;
  folder.y(npy("<f8", {4}, raw<double>({0, 1.5, -2, 1})));
  const auto dataset = folder.load_all();
  EXPECT_EQ(target_of(dataset), (Field{"y", Type::f32}));
  EXPECT_EQ(read_field<float>(*dataset, 1), (std::vector<float>{0, 1.5F, -2, 1}));
}

TEST(NpyTargets, MayHaveAnyShape) {
  const NpyFolder folder;
  std::vector<float> values(24);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 2;
  for (const Shape& shape : {Shape{6}, {2, 3}, {1, 2, 3}}) {
    std::vector<int64_t> dimensions = {4};
    dimensions.insert(dimensions.end(), shape.begin(), shape.end());
    folder.y(npy("<f4", dimensions, raw(values)));
    const auto dataset = folder.load_all();
    EXPECT_EQ(target_of(dataset), (Field{"y", Type::f32, shape}));
    EXPECT_EQ(read_field<float>(*dataset, 1), values);
  }
}

TEST(NpyTargets, AreNumbersWhereASampleHasSeveralWholeOnes) {
  const NpyFolder folder;
  folder.y(npy("<i4", {4, 2}, raw<int32_t>({0, 1, -5, 0, 0, 1, 1, 0})));
  const auto dataset = folder.load_all();
  EXPECT_EQ(target_of(dataset), (Field{"y", Type::f32, {2}}));
  EXPECT_EQ(read_field<float>(*dataset, 1), (std::vector<float>{0, 1, -5, 0, 0, 1, 1, 0}));
}

TEST(NpyTargets, AreClassesWhereASampleHasOneWholeNumber) {
  NpyFolder folder;
  folder.y(npy("<i8", {4, 1}, raw<int64_t>({0, 1, 1, 0})));
  auto dataset = folder.load_all();
  EXPECT_EQ(target_of(dataset), label_field({"0", "1"}));
  EXPECT_EQ(read_labels(*dataset), (std::vector<int64_t>{0, 1, 1, 0}));
  folder.option("targets", "auto");
  EXPECT_EQ(target_of(folder.load_all()), label_field({"0", "1"}));
  folder.option("targets", "classes");
  EXPECT_EQ(target_of(folder.load_all()), label_field({"0", "1"}));
}

TEST(NpyTargets, MayBeWholeNumbersThatStandForNoClass) {
  NpyFolder folder;
  folder.option("targets", "numbers");
  folder.y(npy("<i8", {4}, raw<int64_t>({-7, 0, 2'000'000'000, 1})));
  auto dataset = folder.load_all();
  EXPECT_EQ(target_of(dataset), (Field{"y", Type::f32}));
  EXPECT_EQ(read_field<float>(*dataset, 1), (std::vector<float>{-7, 0, 2e9F, 1}));
  folder.y(npy("<i8", {4, 1}, raw<int64_t>({-7, 0, 2, 1})));
  EXPECT_EQ(target_of(folder.load_all()), (Field{"y", Type::f32, {1}}));
}

TEST(NpyTargets, RefusesNumbersWhereClassesAreAskedFor) {
  NpyFolder folder;
  folder.option("targets", "classes");
  folder.y(npy("<f4", {4}, raw<float>({0, 1, 1, 0})));
  expect_bad_input([&] { folder.load(); }, {"y.npy", "f4", "y.astype('int64')"});
  folder.y(npy("<i8", {4, 2}, raw<int64_t>({0, 1, 1, 0, 0, 1, 0, 1})));
  expect_bad_input([&] { folder.load(); }, {"y.npy", "4 x 2", "y.argmax(1)", "one-hot"});
}

TEST(NpyOptions, RefusesWhatItDoesNotKnow) {
  NpyFolder folder;
  folder.option("targets", "words");
  expect_bad_input([&] { folder.load(); },
                   {"data.options.targets = \"words\"", "classes, numbers or auto"});
  folder.option("layout", "channels_middle");
  expect_bad_input([&] { folder.load(); }, {"data.options.layout = \"channels_middle\"",
                                            "channels_first", "channels_last"});
  folder.option("layuot", "channels_last");
  expect_bad_input([&] { folder.load(); }, {"'layuot'", "did you mean 'layout'?"});
}

// Samples in the layout channels_last that begin as `x` does, and one label for each.
struct ChannelsLast : NpyFolder {
  explicit ChannelsLast(const std::string& x_contents) {
    option("layout", "channels_last");
    x(x_contents);
    y(npy("<i8", {2}, raw<int64_t>({0, 1})));
  }
};

TEST(NpyLayout, MovesTheChannelsOfImagesToTheFront) {
  // Two images of 1 x 2 pixels with 3 channels.
  const auto bytes = ChannelsLast(npy("|u1", {2, 1, 2, 3}, "abcdefABCDEF")).load_all();
  EXPECT_EQ(bytes->fields().inputs.at(0), (Field{"x", Type::u8, {3, 1, 2}}));
  const auto moved = read_field<uint8_t>(*bytes, 0);
  EXPECT_EQ(std::string(moved.begin(), moved.end()), "adbecfADBECF");
  EXPECT_EQ(read_labels(*bytes), (std::vector<int64_t>{0, 1}));

  const auto floats =
      ChannelsLast(npy("<f8", {2, 2, 1, 2}, raw<double>({1, 2, 3, 4, 5, 6, 7, 8}))).load_all();
  EXPECT_EQ(floats->fields().inputs.at(0), (Field{"x", Type::f32, {2, 2, 1}}));
  EXPECT_EQ(read_field<float>(*floats, 0), (std::vector<float>{1, 3, 2, 4, 5, 7, 6, 8}));
}

TEST(NpyLayout, MovesTheChannelsOfEachVideoFrame) {
  const auto bytes = ChannelsLast(npy("|u1", {2, 2, 1, 2, 2}, "abcdABCDefghEFGH")).load_all();
  EXPECT_EQ(bytes->fields().inputs.at(0), (Field{"x", Type::u8, {2, 2, 1, 2}}));
  const auto moved = read_field<uint8_t>(*bytes, 0);
  EXPECT_EQ(std::string(moved.begin(), moved.end()), "acbdACBDegfhEGFH");

  std::vector<float> values(24);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto floats = ChannelsLast(npy("<f4", {2, 2, 1, 2, 3}, raw(values))).load_all();
  EXPECT_EQ(floats->fields().inputs.at(0), (Field{"x", Type::f32, {2, 3, 1, 2}}));
  EXPECT_EQ(read_field<float>(*floats, 0),
            (std::vector<float>{0,  3,  1,  4,  2,  5,  6,  9,  7,  10, 8,  11,
                                12, 15, 13, 16, 14, 17, 18, 21, 19, 22, 20, 23}));
}

TEST(NpyLayout, LeavesRowsAndSeriesAsTheyAre) {
  const auto series = ChannelsLast(npy("|u1", {2, 2, 2}, "abcdefgh")).load_all();
  EXPECT_EQ(series->fields().inputs.at(0).shape, (Shape{2, 2}));
  const auto values = read_field<uint8_t>(*series, 0);
  EXPECT_EQ(std::string(values.begin(), values.end()), "abcdefgh");
  const auto rows = ChannelsLast(npy("|u1", {2, 3}, "abcdef")).load_all();
  EXPECT_EQ(rows->fields().inputs.at(0).shape, (Shape{3}));
}

TEST(NpyLayout, LeavesImagesAsTheyAreWhenChannelsAreFirst) {
  NpyFolder folder;
  folder.option("layout", "channels_first");
  folder.x(npy("|u1", {4, 1, 2, 3}, "abcdefghijklabcdefghijkl"));
  const auto dataset = folder.load_all();
  EXPECT_EQ(dataset->fields().inputs.at(0).shape, (Shape{1, 2, 3}));
  const auto values = read_field<uint8_t>(*dataset, 0);
  EXPECT_EQ(std::string(values.begin(), values.end()), "abcdefghijklabcdefghijkl");
}

}  // namespace
}  // namespace lockstep::data
