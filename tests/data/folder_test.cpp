#include <string>

#include "data/some_datasets.h"
#include "data/training_data.h"
#include "data/written_images.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

Image flat_image(int64_t width, int64_t height, std::vector<uint8_t> pixel) {
  Image image{width, height, static_cast<int64_t>(pixel.size()), {}};
  for (int64_t i = 0; i < width * height; ++i)
    image.pixels.insert(image.pixels.end(), pixel.begin(), pixel.end());
  return image;
}

Splits load_images(const TemporaryFolder& folder, int64_t image_size = 0) {
  DataOptions options;
  options.name = "folder:" + folder.path().string();
  options.hold_out.test_fraction = 0.5;
  if (image_size != 0) options.options = {{"image_size", std::to_string(image_size)}};
  return load_splits(options);
}

const Shape& image_shape(const std::shared_ptr<const Dataset>& dataset) {
  return dataset->fields().inputs.at(0).shape;
}

TEST(Folder, ReadsClassFoldersAndHoldsOut) {
  const TemporaryFolder folder;
  write_png(folder / "cat/1.png", flat_image(2, 2, {1, 2, 3}));
  write_png(folder / "cat/2.PNG", flat_image(2, 2, {1, 2, 3}));
  write_jpeg(folder / "ant/1.JPG", flat_image(2, 2, {5, 5, 5}));
  write_jpeg(folder / "ant/2.jpeg", flat_image(2, 2, {5, 5, 5}));
  const Splits splits = load_images(folder);
  EXPECT_EQ(splits.train->fields(),
            (Fields{{{"image", Type::u8, {3, 2, 2}}}, {label_field({"ant", "cat"})}}));
  EXPECT_EQ(splits.test->fields(), splits.train->fields());
  EXPECT_EQ(splits.train->size() + splits.test->size(), 4);
}

TEST(Folder, PutsPlanesOneAfterAnother) {
  const TemporaryFolder folder;
  write_png(folder / "train/a/1.png", flat_image(2, 1, {1, 2, 3}));
  write_png(folder / "train/b/1.png", flat_image(2, 1, {9}));
  write_png(folder / "test/b/1.png", flat_image(2, 1, {7, 8, 9}));
  const Splits splits = load_images(folder);
  EXPECT_EQ(read_field<uint8_t>(*splits.train, 0),
            (std::vector<uint8_t>{1, 1, 2, 2, 3, 3, 9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(read_labels(*splits.train), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(read_field<uint8_t>(*splits.test, 0), (std::vector<uint8_t>{7, 7, 8, 8, 9, 9}));
  EXPECT_EQ(read_labels(*splits.test), (std::vector<int64_t>{1}));
  EXPECT_EQ(class_names_of(*splits.test), class_names_of(*splits.train));
}

TEST(Folder, HoldsOutOfATrainFolderWithoutATestFolder) {
  const TemporaryFolder folder;
  write_png(folder / "train/a/1.png", flat_image(2, 1, {1}));
  write_png(folder / "train/a/2.png", flat_image(2, 1, {2}));
  const Splits splits = load_images(folder);
  EXPECT_EQ(class_names_of(*splits.train), std::vector<std::string>{"a"});
  EXPECT_EQ(splits.train->size() + splits.test->size(), 2);
}

TEST(Folder, PassesOverWhatArchivesLeaveBehind) {
  const TemporaryFolder folder;
  write_png(folder / "a/1.png", flat_image(2, 1, {1}));
  write_png(folder / "a/2.png", flat_image(2, 1, {2}));
  folder.write("__MACOSX/a/._1.png", "junk");
  folder.write(".hidden/1.png", "junk");
  EXPECT_EQ(class_names_of(*load_images(folder).train), std::vector<std::string>{"a"});
}

TEST(Folder, KeepsGreyImagesInOneChannel) {
  const TemporaryFolder folder;
  write_png(folder / "train/a/1.png", flat_image(2, 1, {4}));
  write_png(folder / "val/a/1.png", flat_image(2, 1, {5}));
  EXPECT_EQ(image_shape(load_images(folder).train), (Shape{1, 1, 2}));
  write_png(folder / "val/a/1.png", flat_image(2, 1, {5, 6, 7}));
  EXPECT_EQ(image_shape(load_images(folder).train), (Shape{3, 1, 2}));
  EXPECT_EQ(image_shape(load_images(folder).test), (Shape{3, 1, 2}));
}

TEST(Folder, IgnoresHiddenAndOtherFiles) {
  const TemporaryFolder folder;
  write_png(folder / "a/1.png", flat_image(2, 2, {1}));
  write_png(folder / "a/2.png", flat_image(2, 2, {1}));
  folder.write("a/.hidden.png", "not an image");
  folder.write("a/notes.txt", "not an image");
  folder.write(".cache/x.png", "not an image");
  folder.write("README", "not a class");
  EXPECT_EQ(class_names_of(*load_images(folder).train), std::vector<std::string>{"a"});
}

TEST(Folder, RefusesDifferentSizesAndNamesBothFiles) {
  const TemporaryFolder folder;
  write_png(folder / "a/1.png", flat_image(2, 3, {1}));
  write_png(folder / "a/2.png", flat_image(4, 5, {1}));
  expect_bad_input([&] { load_images(folder); },
                   {(folder / "a/1.png").string() + " is 2 x 3",
                    (folder / "a/2.png").string() + " is 4 x 5", "data.options.image_size"});
  EXPECT_EQ(image_shape(load_images(folder, 4).train), (Shape{1, 4, 4}));
}

TEST(Folder, RefusesATestSplitOfAnotherSize) {
  const TemporaryFolder folder;
  write_png(folder / "train/a/1.png", flat_image(2, 3, {1}));
  write_png(folder / "test/a/1.png", flat_image(4, 5, {1}));
  expect_bad_input([&] { load_images(folder); },
                   {"train/a/1.png", "test/a/1.png", "data.options.image_size"});
}

TEST(Folder, NamesAFileThatDoesNotDecode) {
  const TemporaryFolder folder;
  write_png(folder / "a/1.png", flat_image(2, 2, {1}));
  folder.write("a/2.jpg", "\xff\xd8\xff rubbish");
  expect_bad_input([&] { load_images(folder); }, {(folder / "a/2.jpg").string(), "JPEG"});
}

TEST(Folder, RefusesAnEmptyClassFolder) {
  const TemporaryFolder folder;
  write_png(folder / "a/1.png", flat_image(2, 2, {1}));
  std::filesystem::create_directories(folder / "b");
  expect_bad_input([&] { load_images(folder); },
                   {(folder / "b").string(), "no .png, .jpg or .jpeg"});
}

TEST(Folder, RefusesAFolderWithoutClasses) {
  const TemporaryFolder folder;
  folder.write("1.png", "beside the point");
  expect_bad_input([&] { load_images(folder); }, {folder.path().string(), "no class folders"});
}

TEST(Folder, RefusesATestClassThatIsNotTrained) {
  const TemporaryFolder folder;
  write_png(folder / "train/a/1.png", flat_image(2, 2, {1}));
  write_png(folder / "test/b/1.png", flat_image(2, 2, {1}));
  expect_bad_input([&] { load_images(folder); }, {"class 'b'", "not in the training split"});
}

TEST(Folder, RefusesAnImpossibleSize) {
  const TemporaryFolder folder;
  expect_bad_input([&] { load_images(folder, -1); }, {"data.options.image_size = -1"});
  expect_bad_input([&] { load_images(folder, 1000000); }, {"data.options.image_size = 1000000"});
}

TEST(Folder, RefusesAnImageSizeThatIsNoNumber) {
  const TemporaryFolder folder;
  write_png(folder / "a/1.png", flat_image(2, 2, {1}));
  DataOptions options{.name = "folder:" + folder.path().string()};
  options.options = {{"image_size", "large"}};
  expect_bad_input([&] { load_splits(options); }, {"image_size", "large", "whole number"});
}

// More than 1 GiB of pixels in few bytes: one black image of 1 MiB under many names.
struct LargeFolder {
  static constexpr int64_t kSide = 1024;
  static constexpr int64_t kImages = 1025;
  TemporaryFolder folder;

  explicit LargeFolder(const std::string& class_name) {
    const std::filesystem::path first = folder / ("train/" + class_name + "/10000.png");
    write_png(first, Image{kSide, kSide, 1, std::vector<uint8_t>(kSide * kSide, 0)});
    for (int64_t i = 1; i < kImages; ++i)
      std::filesystem::create_hard_link(first, image(class_name, i));
    write_png(folder / ("test/" + class_name + "/1.png"),
              Image{kSide, kSide, 1, std::vector<uint8_t>(kSide * kSide, 9)});
  }
  std::filesystem::path image(const std::string& class_name, int64_t number) const {
    return folder / ("train/" + class_name + "/" + std::to_string(10'000 + number) + ".png");
  }
};

TEST(LargeFolder, DecodesAnImageWhenItIsAskedFor) {
  const LargeFolder large("a");
  const Splits splits = load_images(large.folder);
  ASSERT_EQ(splits.train->size(), LargeFolder::kImages);
  EXPECT_EQ(image_shape(splits.train), (Shape{1, LargeFolder::kSide, LargeFolder::kSide}));
  const SampleRoom room(splits.train->fields());
  Image marked{LargeFolder::kSide, LargeFolder::kSide, 1,
               std::vector<uint8_t>(LargeFolder::kSide * LargeFolder::kSide, 0)};
  marked.pixels[5] = 77;
  std::filesystem::remove(large.image("a", 3));
  write_png(large.image("a", 3), marked);
  write_sample(*splits.train, 3, 0, room.memory());
  EXPECT_EQ(room[0][5], std::byte{77});
  write_sample(*splits.train, 4, 0, room.memory());
  EXPECT_EQ(room[0][5], std::byte{0});
}

TEST(LargeFolder, NamesAnImageThatHasChangedItsSizeOrIsGone) {
  const LargeFolder large("a");
  const auto train = load_images(large.folder).train;
  const SampleRoom room(train->fields());
  std::filesystem::remove(large.image("a", 3));
  expect_bad_input([&] { write_sample(*train, 3, 0, room.memory()); },
                   {"sample 3", large.image("a", 3).string()});
  write_png(large.image("a", 3), flat_image(2, 5, {1}));
  expect_bad_input(
      [&] { write_sample(*train, 3, 0, room.memory()); },
      {"sample 3", large.image("a", 3).string(), "has changed", "2 x 5 now", "1024 x 1024"});
}

TEST(LargeFolder, HasADigestOfItsFiles) {
  const LargeFolder large("a");
  const std::string digest = load_images(large.folder).train->digest();
  EXPECT_EQ(digest.size(), 64U);
  EXPECT_EQ(load_images(large.folder).train->digest(), digest);
  std::filesystem::remove(large.image("a", 1024));
  std::filesystem::copy_file(large.folder / "test/a/1.png", large.image("a", 1024));
  EXPECT_NE(load_images(large.folder).train->digest(), digest);
}

TEST(LargeFolder, NamesAnImageThatIsGoneWhenTheDigestIsTaken) {
  const LargeFolder large("a");
  const auto train = load_images(large.folder).train;
  std::filesystem::remove(large.image("a", 3));
  expect_bad_input([&] { train->digest(); }, {large.image("a", 3).string()});
}

TEST(LargeFolder, HasADigestThatDiffersByClassName) {
  EXPECT_NE(load_images(LargeFolder("a").folder).train->digest(),
            load_images(LargeFolder("b").folder).train->digest());
}

TEST(LargeFolder, HasADigestThatDiffersByImageSize) {
  const TemporaryFolder folder;
  for (int i = 0; i < 400; ++i)  // of 3 MiB each, once they are scaled
    write_png(folder / ("a/" + std::to_string(i) + ".png"), flat_image(1, 1, {1, 2, 3}));
  const auto digest = [&](int64_t image_size) {
    return load_images(folder, image_size).train->digest();
  };
  EXPECT_EQ(digest(1024), digest(1024));
  EXPECT_NE(digest(1024), digest(1000));
}

}  // namespace
}  // namespace lockstep::data
