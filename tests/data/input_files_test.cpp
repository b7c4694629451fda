#include "data/input_files.h"

#include "data/some_datasets.h"
#include "data/written_files.h"
#include "data/written_images.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

const Field kGrey = {"image", Type::u8, {1, 4, 6}};
const Field kColour = {"image", Type::u8, {3, 4, 6}};
const Field kRow = {"x", Type::f32, {3}};

TEST(InputFiles, AreImagesAndAllImagesOfAFolder) {
  const TemporaryFolder folder;
  write_png(folder / "b.png", picture(6, 4, 1));
  write_png(folder / "more" / "z.png", picture(6, 4, 1));
  write_png(folder / "more" / "a.PNG", picture(6, 4, 1));
  folder.write("more/notes.txt", "not an image");
  const InputFiles files({folder / "b.png", folder / "more"}, kGrey, {});
  ASSERT_EQ(files.size(), 3);
  EXPECT_EQ(files.name(0), (folder / "b.png").string());
  EXPECT_EQ(files.name(1), (folder / "more/a.PNG").string());
  EXPECT_EQ(files.name(2), (folder / "more/z.png").string());
  EXPECT_TRUE(files.fields().targets.empty());
  const std::vector<uint8_t> one = picture(6, 4, 1).pixels;
  const std::vector<uint8_t> all = read_field<uint8_t>(files, 0);
  EXPECT_EQ(std::vector<uint8_t>(all.begin(), all.begin() + 24), one);
}

TEST(InputFiles, AreArraysOfManySamples) {
  const TemporaryFolder folder;
  folder.write("x.npy", npy("<f4", {2, 3}, raw<float>({1, 2, 3, 4, 5, 6})));
  folder.write("y.npy", npy("<f8", {1, 3}, raw<double>({7, 8, 9})));
  const InputFiles files({folder / "x.npy", folder / "y.npy"}, kRow, {});
  EXPECT_EQ(read_field<float>(files, 0), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(files.name(1), (folder / "x.npy").string() + "[1]");
  EXPECT_EQ(files.name(2), (folder / "y.npy").string() + "[0]");
}

TEST(InputFiles, OfAnotherSizeAreScaledOnlyIfTheRecipeScales) {
  const TemporaryFolder folder;
  write_png(folder / "large.png", picture(12, 8, 3));
  expect_bad_input([&] { InputFiles({folder / "large.png"}, kColour, {}); },
                   {"large.png is 12 x 8 (width x height)", "trained on 6 x 4", "image_size"});
  const Field square = {"image", Type::u8, {3, 5, 5}};
  const InputFiles scaled({folder / "large.png"}, square, {{"image_size", "5"}});
  EXPECT_EQ(read_field<uint8_t>(scaled, 0).size(), 75U);
}

TEST(InputFiles, OfAnotherNumberOfChannelsAreTakenIfNothingIsLost) {
  const TemporaryFolder folder;
  write_png(folder / "grey.png", picture(6, 4, 1));
  Image equal{6, 4, 3, {}};
  for (const uint8_t pixel : picture(6, 4, 1).pixels)
    equal.pixels.insert(equal.pixels.end(), 3, pixel);
  write_png(folder / "equal.png", equal);
  write_png(folder / "colour.png", picture(6, 4, 3));
  EXPECT_EQ(read_field<uint8_t>(InputFiles({folder / "grey.png"}, kColour, {}), 0).size(), 72U);
  EXPECT_EQ(read_field<uint8_t>(InputFiles({folder / "equal.png"}, kGrey, {}), 0),
            picture(6, 4, 1).pixels);
  const InputFiles colour({folder / "colour.png"}, kGrey, {});
  expect_bad_input([&] { read_field<uint8_t>(colour, 0); },
                   {"colour.png is in colour", "convert it to grey"});
}

TEST(InputFiles, AreNamedByTheSampleOfTheFile) {
  const TemporaryFolder folder;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  folder.write("a.npy", npy("<f4", {1, 3}, raw<float>({1, 2, 3})));
  folder.write("b.npy", npy("<f4", {1, 3}, raw<float>({1, nan, 3})));
  const InputFiles files({folder / "a.npy", folder / "b.npy"}, kRow, {});
  const SampleRoom room(files.fields());
  const std::string message =
      message_of<BadInput>([&] { write_sample(files, 1, 0, room.memory()); });
  EXPECT_TRUE(has(message, "b.npy: nan in sample 0")) << message;
  EXPECT_FALSE(has(message, "sample 1")) << message;
}

TEST(InputFiles, OfAnotherOrderOfChannelsAreComparedAsTheyAreInFiles) {
  const TemporaryFolder folder;
  folder.write("first.npy", npy("|u1", {1, 3, 4, 6}, std::string(72, '\0')));
  folder.write("last.npy", npy("|u1", {1, 4, 6, 3}, std::string(72, '\0')));
  const Options options = {{"layout", "channels_last"}};
  EXPECT_EQ(InputFiles({folder / "last.npy"}, kColour, options).size(), 1);
  expect_bad_input([&] { InputFiles({folder / "first.npy"}, kColour, options); },
                   {"first.npy: samples are 3 x 4 x 6, but the model was trained on 4 x 6 x 3 "
                    "(channels_last, as its data); save np.moveaxis(x, -3, -1)"});
}

TEST(InputFiles, ThatCannotBeUsedAreNamed) {
  const TemporaryFolder folder;
  folder.write("text.png", "no image at all");
  folder.write("bytes.npy", npy("|u1", {2, 3}, raw<uint8_t>({1, 2, 3, 4, 5, 6})));
  folder.write("wide.npy", npy("<f4", {1, 4}, raw<float>({1, 2, 3, 4})));
  write_png(folder / "a.png", picture(6, 4, 1));
  std::filesystem::create_directory(folder / "empty");
  expect_bad_input([&] { InputFiles({folder / "text.png"}, kGrey, {}); }, {"text.png"});
  expect_bad_input([&] { InputFiles({folder / "none.png"}, kGrey, {}); },
                   {"none.png: no such file"});
  expect_bad_input([&] { InputFiles({folder / "empty"}, kGrey, {}); },
                   {"empty: no .png, .jpg or .jpeg in this folder"});
  expect_bad_input([&] { InputFiles({folder / "bytes.npy"}, kRow, {}); },
                   {"bytes.npy: is uint8", "save it as float32"});
  expect_bad_input([&] { InputFiles({folder / "wide.npy"}, kRow, {}); },
                   {"wide.npy: samples are 4, but the model was trained on 3"});
  expect_bad_input([&] { InputFiles({folder / "a.png"}, kRow, {}); },
                   {"a.png: the model's input 'x'", "expected .npy arrays"});
}

}  // namespace
}  // namespace lockstep::data
