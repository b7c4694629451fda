#include "data/image.h"

#include <zlib.h>

#include <cstdlib>
#include <cstring>

#include "base/atomic_file.h"
#include "data/written_images.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

TEST(Png, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  for (const int64_t channels : {1, 3}) {
    const Image image = picture(13, 7, channels);
    write_png(folder / "a.png", image);
    const Image read = read_image(folder / "a.png");
    EXPECT_EQ(read.width, 13);
    EXPECT_EQ(read.height, 7);
    EXPECT_EQ(read.channels, channels);
    EXPECT_EQ(read.pixels, image.pixels);
  }
}

TEST(Png, DropsTransparency) {
  const TemporaryFolder folder;
  const std::vector<uint8_t> pixels = {10, 20, 30, 128, 40, 50, 60, 255};
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = 2;
  png.height = 1;
  png.format = PNG_FORMAT_RGBA;
  ASSERT_NE(png_image_write_to_file(&png, (folder / "a.png").c_str(), 0, pixels.data(), 0, nullptr),
            0);
  const Image read = read_image(folder / "a.png");
  EXPECT_EQ(read.channels, 3);
  EXPECT_EQ(read.pixels, (std::vector<uint8_t>{10, 20, 30, 40, 50, 60}));
}

TEST(Png, ExpandsAPalette) {
  const TemporaryFolder folder;
  const std::vector<uint8_t> indices = {1, 0, 1};
  const std::vector<uint8_t> palette = {9, 8, 7, 200, 100, 50};
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = 3;
  png.height = 1;
  png.format = PNG_FORMAT_RGB_COLORMAP;
  png.colormap_entries = 2;
  ASSERT_NE(png_image_write_to_file(&png, (folder / "a.png").c_str(), 0, indices.data(), 0,
                                    palette.data()),
            0);
  EXPECT_EQ(read_image(folder / "a.png").pixels,
            (std::vector<uint8_t>{200, 100, 50, 9, 8, 7, 200, 100, 50}));
}

TEST(Png, RefusesAFileCutAnywhere) {
  const TemporaryFolder folder;
  write_png(folder / "a.png", picture(13, 7, 3));
  const std::string whole = read_file(folder / "a.png");
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto cut = std::as_bytes(std::span(whole).first(size));
    expect_bad_input([&] { decode_image(cut, "cut.png"); }, {"cut.png"});
  }
}

TEST(Png, RefusesADamagedFileWithTheDecodersMessage) {
  const TemporaryFolder folder;
  write_png(folder / "a.png", picture(40, 40, 3));
  std::string file = read_file(folder / "a.png");
  file[file.size() / 2] = static_cast<char>(~file[file.size() / 2]);
  folder.write("a.png", file);
  expect_bad_input([&] { read_image(folder / "a.png"); },
                   {(folder / "a.png").string(), "not a readable PNG: ", "replace or remove it"});
}

TEST(Png, ChecksAHostileSizeBeforeAskingForMemory) {
  const TemporaryFolder folder;
  write_png(folder / "a.png", picture(40, 40, 3));
  std::string file = read_file(folder / "a.png");
  const std::string size = {'\0', '\x0f', '\0', '\0', '\0', '\x0f', '\0', '\0'};
  file.replace(16, 8, size);
  const auto crc =
      static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(file.data() + 12), 17));
  for (int i = 0; i < 4; ++i) file[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
  folder.write("a.png", file);
  expect_bad_input([&] { read_image(folder / "a.png"); }, {(folder / "a.png").string()});
  expect_bad_input([&] { read_image(folder / "a.png", Decode::header); },
                   {(folder / "a.png").string()});
}

TEST(Jpeg, ReadsBackAboutWhatWasWritten) {
  const TemporaryFolder folder;
  for (const int64_t channels : {1, 3}) {
    Image image{16, 24, channels, {}};
    for (int64_t i = 0; i < 16 * 24; ++i)
      for (int64_t c = 0; c < channels; ++c)
        image.pixels.push_back(static_cast<uint8_t>(i / 2 + 20 * c));
    write_jpeg(folder / "a.jpg", image);
    const Image read = read_image(folder / "a.jpg");
    ASSERT_EQ(read.width, 16);
    ASSERT_EQ(read.height, 24);
    ASSERT_EQ(read.channels, channels);
    ASSERT_EQ(read.pixels.size(), image.pixels.size());
    for (size_t i = 0; i < read.pixels.size(); ++i)
      ASSERT_LE(std::abs(read.pixels[i] - image.pixels[i]), 4) << "at " << i;
  }
}

TEST(Jpeg, RefusesAFileCutAnywhere) {
  const TemporaryFolder folder;
  write_jpeg(folder / "a.jpg", picture(24, 24, 3));
  const std::string whole = read_file(folder / "a.jpg");
  for (size_t size = 0; size + 2 < whole.size(); size += 7) {
    const auto cut = std::as_bytes(std::span(whole).first(size));
    expect_bad_input([&] { decode_image(cut, "cut.jpg"); }, {"cut.jpg"});
  }
}

TEST(Jpeg, RefusesACutFileWithTheDecodersMessage) {
  const TemporaryFolder folder;
  write_jpeg(folder / "a.jpg", picture(24, 24, 3));
  const std::string whole = read_file(folder / "a.jpg");
  folder.write("a.jpg", whole.substr(0, whole.size() - 40));
  expect_bad_input([&] { read_image(folder / "a.jpg"); },
                   {(folder / "a.jpg").string(), "not a readable JPEG: ", "Premature end"});
}

TEST(ImageHeader, TellsSizeAndChannelsWithoutPixels) {
  const TemporaryFolder folder;
  for (const int64_t channels : {1, 3}) {
    write_png(folder / "a.png", picture(13, 7, channels));
    write_jpeg(folder / "a.jpg", picture(13, 7, channels));
    for (const char* name : {"a.png", "a.jpg"}) {
      const Image header = read_image(folder / name, Decode::header);
      EXPECT_EQ(header.width, 13) << name;
      EXPECT_EQ(header.height, 7) << name;
      EXPECT_EQ(header.channels, channels) << name;
      EXPECT_TRUE(header.pixels.empty()) << name;
    }
  }
}

TEST(ImageHeader, TellsTheChannelsThatTheImageIsDecodedTo) {
  const TemporaryFolder folder;
  for (const png_uint_32 format : {PNG_FORMAT_RGBA, PNG_FORMAT_GA, PNG_FORMAT_LINEAR_Y}) {
    const std::vector<uint8_t> pixels(64, 100);
    png_image png = {};
    png.version = PNG_IMAGE_VERSION;
    png.width = 4;
    png.height = 2;
    png.format = format;
    ASSERT_NE(
        png_image_write_to_file(&png, (folder / "a.png").c_str(), 0, pixels.data(), 0, nullptr), 0);
    EXPECT_EQ(read_image(folder / "a.png", Decode::header).channels,
              read_image(folder / "a.png").channels);
  }
}

TEST(ImageHeader, IsReadOfAFileWhosePixelsAreCut) {
  const TemporaryFolder folder;
  for (const std::string name : {"a.png", "a.jpg"}) {
    if (name == "a.png")
      write_png(folder / name, picture(40, 30, 3));
    else
      write_jpeg(folder / name, picture(40, 30, 3));
    const std::string whole = read_file(folder / name);
    folder.write(name, whole.substr(0, whole.size() - 20));
    EXPECT_EQ(read_image(folder / name, Decode::header).width, 40);
    expect_bad_input([&] { read_image(folder / name); }, {(folder / name).string()});
    folder.write(name, whole.substr(0, 20));
    expect_bad_input([&] { read_image(folder / name, Decode::header); },
                     {(folder / name).string()});
  }
}

TEST(Image, RefusesAnythingElse) {
  const TemporaryFolder folder;
  folder.write("a.png", "GIF89a");
  expect_bad_input([&] { read_image(folder / "a.png"); },
                   {(folder / "a.png").string(), "neither a PNG nor a JPEG"});
}

TEST(Image, TellsAPngByItsStartNotItsName) {
  const TemporaryFolder folder;
  write_png(folder / "a.jpg", picture(3, 3, 1));
  EXPECT_EQ(read_image(folder / "a.jpg").pixels, picture(3, 3, 1).pixels);
}

TEST(ScaleImage, KeepsAnImageOfThatSize) {
  const Image image = picture(9, 9, 3);
  EXPECT_EQ(scale_to_square(image, 9).pixels, image.pixels);
}

TEST(ScaleImage, CropsTheMiddle) {
  const Image image{5, 3, 1, {0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24}};
  EXPECT_EQ(scale_to_square(image, 3).pixels,
            (std::vector<uint8_t>{1, 2, 3, 11, 12, 13, 21, 22, 23}));
}

TEST(ScaleImage, AveragesWhenItShrinks) {
  Image board{64, 64, 1, {}};
  for (int i = 0; i < 64 * 64; ++i) board.pixels.push_back((i / 64 + i % 64) % 2 == 0 ? 0 : 200);
  for (const uint8_t value : scale_to_square(board, 8).pixels) EXPECT_NEAR(value, 100, 1);
}

TEST(ScaleImage, KeepsAFlatImageFlat) {
  Image flat{37, 23, 3, std::vector<uint8_t>(37 * 23 * 3, 201)};
  for (const int64_t side : {1, 5, 23, 60})
    for (const uint8_t value : scale_to_square(flat, side).pixels) EXPECT_EQ(value, 201);
}

}  // namespace
}  // namespace lockstep::data
