#include "data/cifar.h"

#include "data/some_datasets.h"
#include "data/written_images.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

const std::vector<std::string> kCifarNames(10, "name");

// A record of label `label` whose pixels count up from `first`.
std::string cifar_record(int label, int first) {
  std::string bytes(1, static_cast<char>(label));
  for (int64_t i = 0; i < 3 * kCifarPlane; ++i) bytes += static_cast<char>((first + i) % 251);
  return bytes;
}

TEST(Cifar, ReadsRecordsOfSeveralFilesInOrder) {
  const TemporaryFolder folder;
  const std::vector<std::filesystem::path> files = {
      folder.write("a.bin", cifar_record(3, 1) + cifar_record(9, 2)),
      folder.write("b.bin", cifar_record(0, 3) + cifar_record(1, 4))};
  const auto dataset = read_cifar(files, 2, kCifarNames);
  EXPECT_EQ(dataset->size(), 4);
  ASSERT_EQ(dataset->fields().inputs.size(), 1U);
  EXPECT_EQ(dataset->fields().inputs[0].shape, (Shape{3, 32, 32}));
  EXPECT_EQ(class_names_of(*dataset), kCifarNames);
  EXPECT_EQ(read_labels(*dataset), (std::vector<int64_t>{3, 9, 0, 1}));
  const auto values = read_field<uint8_t>(*dataset, 0);
  ASSERT_EQ(values.size(), 4U * 3072);
  for (size_t sample = 0; sample < 4; ++sample)
    EXPECT_EQ(std::string(values.begin() + static_cast<std::ptrdiff_t>(sample * 3072),
                          values.begin() + static_cast<std::ptrdiff_t>((sample + 1) * 3072)),
              cifar_record(0, static_cast<int>(sample) + 1).substr(1));
}

TEST(Cifar, RefusesAFileOfAWrongSize) {
  const TemporaryFolder folder;
  const std::vector<std::filesystem::path> files = {folder.write("a.bin", cifar_record(3, 1))};
  expect_bad_input([&] { read_cifar(files, 2, kCifarNames); },
                   {files[0].string(), "truncated", "6146", "3073"});
  folder.write("a.bin", cifar_record(3, 1) + cifar_record(3, 1) + "x");
  expect_bad_input([&] { read_cifar(files, 2, kCifarNames); },
                   {files[0].string(), "trailing bytes"});
}

TEST(Cifar, RefusesALabelOutOfRange) {
  const TemporaryFolder folder;
  const std::vector<std::filesystem::path> files = {
      folder.write("a.bin", cifar_record(3, 1) + cifar_record(10, 2))};
  expect_bad_input([&] { read_cifar(files, 2, kCifarNames); },
                   {files[0].string(), "label 10 of record 1"});
}

TEST(Cifar, TurnsRowsOfPixelsIntoOfficialRecords) {
  Image rows{kCifarPlane, 2, 3, {}};
  std::string expected;
  for (int image = 0; image < 2; ++image) {
    std::string planes(3 * kCifarPlane, '\0');
    for (int64_t pixel = 0; pixel < kCifarPlane; ++pixel)
      for (int64_t channel = 0; channel < 3; ++channel) {
        const auto value = static_cast<uint8_t>((pixel * 7 + channel * 85 + image) % 256);
        rows.pixels.push_back(value);
        planes[static_cast<size_t>(channel * kCifarPlane + pixel)] = static_cast<char>(value);
      }
    expected += static_cast<char>(4 + image) + planes;
  }
  const std::vector<uint8_t> labels = {4, 5};
  const std::vector<uint8_t> records = cifar_records(rows, labels, "rows.png");
  EXPECT_EQ(std::string(records.begin(), records.end()), expected);
}

TEST(Cifar, RefusesAPictureThatIsNotOneImageARow) {
  const std::vector<uint8_t> labels = {4, 5};
  expect_bad_input([&] { cifar_records(picture(32, 2, 3), labels, "rows.png"); },
                   {"rows.png", "32 x 2", "1024 x 2"});
}

}  // namespace
}  // namespace lockstep::data
