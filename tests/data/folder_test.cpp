#include "data/folder.h"

#include "data/written_images.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

Image flat(int64_t width, int64_t height, std::vector<uint8_t> pixel) {
  Image image{width, height, static_cast<int64_t>(pixel.size()), {}};
  for (int64_t i = 0; i < width * height; ++i)
    image.pixels.insert(image.pixels.end(), pixel.begin(), pixel.end());
  return image;
}

Splits load(const TemporaryFolder& folder, int64_t image_size = 0) {
  SourceOptions options;
  options.image_size = image_size;
  options.test_fraction = 0.5;
  return load_folder(folder.path(), options);
}

const std::vector<uint8_t>& bytes(const Dataset& dataset) {
  return std::get<std::vector<uint8_t>>(dataset.values);
}

TEST(Folder, ReadsClassFoldersAndHoldsOut) {
  const TemporaryFolder folder;
  write_png(folder / "cat/1.png", flat(2, 2, {1, 2, 3}));
  write_png(folder / "cat/2.PNG", flat(2, 2, {1, 2, 3}));
  write_jpeg(folder / "ant/1.JPG", flat(2, 2, {5, 5, 5}));
  write_jpeg(folder / "ant/2.jpeg", flat(2, 2, {5, 5, 5}));
  const Splits splits = load(folder);
  EXPECT_EQ(splits.train.class_names, (std::vector<std::string>{"ant", "cat"}));
  EXPECT_EQ(splits.train.shape, (Shape{3, 2, 2}));
  EXPECT_EQ(splits.train.size() + splits.test.size(), 4);
}

TEST(Folder, PutsPlanesOneAfterAnother) {
  const TemporaryFolder folder;
  write_png(folder / "train/a/1.png", flat(2, 1, {1, 2, 3}));
  write_png(folder / "train/b/1.png", flat(2, 1, {9}));
  write_png(folder / "test/b/1.png", flat(2, 1, {7, 8, 9}));
  const Splits splits = load(folder);
  EXPECT_EQ(bytes(splits.train), (std::vector<uint8_t>{1, 1, 2, 2, 3, 3, 9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(splits.train.labels, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(bytes(splits.test), (std::vector<uint8_t>{7, 7, 8, 8, 9, 9}));
  EXPECT_EQ(splits.test.labels, (std::vector<int32_t>{1}));
  EXPECT_EQ(splits.test.class_names, splits.train.class_names);
}

TEST(Folder, HoldsOutOfATrainFolderWithoutATestFolder) {
  const TemporaryFolder folder;
  write_png(folder / "train/a/1.png", flat(2, 1, {1}));
  write_png(folder / "train/a/2.png", flat(2, 1, {2}));
  const Splits splits = load(folder);
  EXPECT_EQ(splits.train.class_names, std::vector<std::string>{"a"});
  EXPECT_EQ(splits.train.size() + splits.test.size(), 2);
}

TEST(Folder, PassesOverWhatArchivesLeaveBehind) {
  const TemporaryFolder folder;
  write_png(folder / "a/1.png", flat(2, 1, {1}));
  write_png(folder / "a/2.png", flat(2, 1, {2}));
  folder.write("__MACOSX/a/._1.png", "junk");
  folder.write(".hidden/1.png", "junk");
  EXPECT_EQ(load(folder).train.class_names, std::vector<std::string>{"a"});
}

TEST(Folder, KeepsGreyImagesInOneChannel) {
  const TemporaryFolder folder;
  write_png(folder / "train/a/1.png", flat(2, 1, {4}));
  write_png(folder / "val/a/1.png", flat(2, 1, {5}));
  EXPECT_EQ(load(folder).train.shape, (Shape{1, 1, 2}));
  write_png(folder / "val/a/1.png", flat(2, 1, {5, 6, 7}));
  EXPECT_EQ(load(folder).train.shape, (Shape{3, 1, 2}));
  EXPECT_EQ(load(folder).test.shape, (Shape{3, 1, 2}));
}

TEST(Folder, IgnoresHiddenAndOtherFiles) {
  const TemporaryFolder folder;
  write_png(folder / "a/1.png", flat(2, 2, {1}));
  write_png(folder / "a/2.png", flat(2, 2, {1}));
  folder.write("a/.hidden.png", "not an image");
  folder.write("a/notes.txt", "not an image");
  folder.write(".cache/x.png", "not an image");
  folder.write("README", "not a class");
  EXPECT_EQ(load(folder).train.classes(), 1);
}

TEST(Folder, RefusesDifferentSizesAndNamesBothFiles) {
  const TemporaryFolder folder;
  write_png(folder / "a/1.png", flat(2, 3, {1}));
  write_png(folder / "a/2.png", flat(4, 5, {1}));
  expect_bad_input([&] { load(folder); },
                   {(folder / "a/1.png").string() + " is 2 x 3",
                    (folder / "a/2.png").string() + " is 4 x 5", "data.image_size"});
  EXPECT_EQ(load(folder, 4).train.shape, (Shape{1, 4, 4}));
}

TEST(Folder, RefusesATestSplitOfAnotherSize) {
  const TemporaryFolder folder;
  write_png(folder / "train/a/1.png", flat(2, 3, {1}));
  write_png(folder / "test/a/1.png", flat(4, 5, {1}));
  expect_bad_input([&] { load(folder); }, {"train/a/1.png", "test/a/1.png", "data.image_size"});
}

TEST(Folder, NamesAFileThatDoesNotDecode) {
  const TemporaryFolder folder;
  write_png(folder / "a/1.png", flat(2, 2, {1}));
  folder.write("a/2.jpg", "\xff\xd8\xff rubbish");
  expect_bad_input([&] { load(folder); }, {(folder / "a/2.jpg").string(), "JPEG"});
}

TEST(Folder, RefusesAnEmptyClassFolder) {
  const TemporaryFolder folder;
  write_png(folder / "a/1.png", flat(2, 2, {1}));
  std::filesystem::create_directories(folder / "b");
  expect_bad_input([&] { load(folder); }, {(folder / "b").string(), "no .png, .jpg or .jpeg"});
}

TEST(Folder, RefusesAFolderWithoutClasses) {
  const TemporaryFolder folder;
  folder.write("1.png", "beside the point");
  expect_bad_input([&] { load(folder); }, {folder.path().string(), "no class folders"});
}

TEST(Folder, RefusesATestClassThatIsNotTrained) {
  const TemporaryFolder folder;
  write_png(folder / "train/a/1.png", flat(2, 2, {1}));
  write_png(folder / "test/b/1.png", flat(2, 2, {1}));
  expect_bad_input([&] { load(folder); }, {"class 'b'", "not in the training split"});
}

TEST(Folder, RefusesAnImpossibleSize) {
  const TemporaryFolder folder;
  expect_bad_input([&] { load(folder, -1); }, {"data.image_size -1"});
  expect_bad_input([&] { load(folder, 1000000); }, {"data.image_size 1000000"});
}

}  // namespace
}  // namespace lockstep::data
