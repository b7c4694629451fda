#include "data/idx.h"

#include "data/written_files.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

const std::vector<std::string> kClasses = {"zero", "one", "two"};

struct Files {
  TemporaryFolder folder;
  std::filesystem::path images = folder / "images";
  std::filesystem::path labels = folder / "labels";

  Files() {
    folder.write("images", idx({2, 2, 3}, "abcdefghijkl"));
    folder.write("labels", idx({2}, {'\x02', '\x00'}));
  }
  Dataset read() const { return read_idx(images, labels, kClasses); }
};

TEST(Idx, ReadsImagesAndLabels) {
  const Files files;
  const Dataset dataset = files.read();
  EXPECT_EQ(dataset.shape, (Shape{1, 2, 3}));
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{2, 0}));
  EXPECT_EQ(dataset.class_names, kClasses);
  const auto& values = std::get<std::vector<uint8_t>>(dataset.values);
  EXPECT_EQ(std::string(values.begin(), values.end()), "abcdefghijkl");
}

TEST(Idx, ReadsGzipTheSame) {
  const Files files;
  const Dataset plain = files.read();
  files.folder.write("images", gzip(idx({2, 2, 3}, "abcdefghijkl")));
  files.folder.write("labels", gzip(idx({2}, {'\x02', '\x00'})));
  const Dataset packed = files.read();
  EXPECT_EQ(packed.values, plain.values);
  EXPECT_EQ(packed.labels, plain.labels);
}

TEST(Idx, NamesAMissingFile) {
  const Files files;
  std::filesystem::remove(files.labels);
  expect_bad_input([&] { files.read(); }, {files.labels.string(), "cannot be read"});
}

TEST(Idx, RefusesATruncatedFileAndNamesIt) {
  const Files files;
  files.folder.write("images", idx({2, 2, 3}, "abcdefghijk"));
  expect_bad_input([&] { files.read(); },
                   {files.images.string(), "truncated", "12", "11", "get the file again"});
}

TEST(Idx, RefusesAFileThatEndsInItsHeader) {
  const Files files;
  files.folder.write("images", idx({2, 2, 3}, "").substr(0, 9));
  expect_bad_input([&] { files.read(); }, {files.images.string(), "truncated"});
  files.folder.write("images", "");
  expect_bad_input([&] { files.read(); }, {files.images.string(), "truncated"});
}

TEST(Idx, RefusesTruncatedContentsInGzip) {
  const Files files;
  files.folder.write("images", gzip(idx({2, 2, 3}, "abcdefghijk")));
  expect_bad_input([&] { files.read(); }, {files.images.string(), "truncated"});
}

TEST(Idx, RefusesATruncatedGzip) {
  const Files files;
  const std::string packed = gzip(idx({2, 2, 3}, "abcdefghijkl"));
  for (size_t size = 1; size < packed.size(); ++size) {
    files.folder.write("images", packed.substr(0, size));
    expect_bad_input([&] { files.read(); }, {files.images.string()});
  }
}

TEST(Idx, RefusesADamagedGzip) {
  const Files files;
  std::string packed = gzip(idx({2, 2, 3}, "abcdefghijkl"));
  packed[packed.size() - 6] = static_cast<char>(~packed[packed.size() - 6]);
  files.folder.write("images", packed);
  expect_bad_input([&] { files.read(); }, {files.images.string(), "damaged", "get the file again"});
}

TEST(Idx, RefusesAWrongMagic) {
  const Files files;
  files.folder.write("images", idx({2}, "ab"));
  expect_bad_input([&] { files.read(); },
                   {files.images.string(), "not an IDX file", "00000801", "00000803"});
  files.folder.write("images", gzip("<html>404</html>"));
  expect_bad_input([&] { files.read(); }, {files.images.string(), "not an IDX file"});
}

TEST(Idx, RefusesTrailingBytes) {
  const Files files;
  files.folder.write("labels", idx({2}, "\x01\x01\x01"));
  expect_bad_input([&] { files.read(); }, {files.labels.string(), "trailing bytes"});
  files.folder.write("labels", gzip(idx({2}, "\x01\x01\x01")));
  expect_bad_input([&] { files.read(); }, {files.labels.string(), "trailing bytes"});
}

TEST(Idx, RefusesDifferentCountsOfImagesAndLabels) {
  const Files files;
  files.folder.write("labels", idx({3}, {'\x01', '\x01', '\x01'}));
  expect_bad_input([&] { files.read(); },
                   {files.images.string(), "2 images", files.labels.string(), "3 labels"});
}

TEST(Idx, RefusesALabelOutOfRange) {
  const Files files;
  files.folder.write("labels", idx({2}, {'\x01', '\x03'}));
  expect_bad_input([&] { files.read(); },
                   {files.labels.string(), "label 3 of sample 1", "expected 0 to 2"});
}

TEST(Idx, ChecksAHostileHeaderBeforeAskingForMemory) {
  const Files files;
  files.folder.write("images", idx({0xffffffff, 0xff, 0xff}, "x"));
  expect_bad_input([&] { files.read(); }, {files.images.string()});
  files.folder.write("images", idx({0xffffffff, 0xffffffff, 0xffffffff}, "x"));
  expect_bad_input([&] { files.read(); }, {files.images.string(), "no data set"});
  files.folder.write("images", gzip(idx({0xffffffff, 0xff, 0xff}, "x")));
  expect_bad_input([&] { files.read(); }, {files.images.string(), "gzip"});
  files.folder.write("images", idx({0, 2, 3}, ""));
  expect_bad_input([&] { files.read(); }, {files.images.string(), "no data set"});
}

}  // namespace
}  // namespace lockstep::data
