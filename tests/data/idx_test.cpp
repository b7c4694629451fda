#include "data/idx.h"

#include "data/some_datasets.h"
#include "data/written_files.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

const std::vector<std::string> kIdxClasses = {"zero", "one", "two"};

struct IdxFiles {
  TemporaryFolder folder;
  std::filesystem::path images = folder / "images";
  std::filesystem::path labels = folder / "labels";

  IdxFiles() {
    folder.write("images", idx({2, 2, 3}, "abcdefghijkl"));
    folder.write("labels", idx({2}, {'\x02', '\x00'}));
  }
  std::shared_ptr<const Dataset> read() const { return read_idx(images, labels, kIdxClasses); }
};

TEST(Idx, ReadsImagesAndLabels) {
  const IdxFiles files;
  const auto dataset = files.read();
  EXPECT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->fields(),
            (Fields{{{"image", Type::u8, {1, 2, 3}}}, {label_field(kIdxClasses)}}));
  EXPECT_EQ(read_labels(*dataset), (std::vector<int64_t>{2, 0}));
  const auto values = read_field<uint8_t>(*dataset, 0);
  EXPECT_EQ(std::string(values.begin(), values.end()), "abcdefghijkl");
}

TEST(Idx, ReadsGzipTheSame) {
  const IdxFiles files;
  const auto plain = files.read();
  files.folder.write("images", gzip(idx({2, 2, 3}, "abcdefghijkl")));
  files.folder.write("labels", gzip(idx({2}, {'\x02', '\x00'})));
  const auto packed = files.read();
  EXPECT_EQ(read_field<uint8_t>(*packed, 0), read_field<uint8_t>(*plain, 0));
  EXPECT_EQ(read_labels(*packed), read_labels(*plain));
  EXPECT_EQ(packed->digest(), plain->digest());
}

TEST(Idx, NamesAMissingFile) {
  const IdxFiles files;
  std::filesystem::remove(files.labels);
  expect_bad_input([&] { files.read(); }, {files.labels.string(), "cannot be read"});
}

TEST(Idx, RefusesATruncatedFileAndNamesIt) {
  const IdxFiles files;
  files.folder.write("images", idx({2, 2, 3}, "abcdefghijk"));
  expect_bad_input([&] { files.read(); },
                   {files.images.string(), "truncated", "12", "11", "replace the file"});
}

TEST(Idx, RefusesAFileThatEndsInItsHeader) {
  const IdxFiles files;
  files.folder.write("images", idx({2, 2, 3}, "").substr(0, 9));
  expect_bad_input([&] { files.read(); }, {files.images.string(), "truncated"});
  files.folder.write("images", "");
  expect_bad_input([&] { files.read(); }, {files.images.string(), "truncated"});
}

TEST(Idx, RefusesTruncatedContentsInGzip) {
  const IdxFiles files;
  files.folder.write("images", gzip(idx({2, 2, 3}, "abcdefghijk")));
  expect_bad_input([&] { files.read(); }, {files.images.string(), "truncated"});
}

TEST(Idx, RefusesATruncatedGzip) {
  const IdxFiles files;
  const std::string packed = gzip(idx({2, 2, 3}, "abcdefghijkl"));
  for (size_t size = 1; size < packed.size(); ++size) {
    files.folder.write("images", packed.substr(0, size));
    expect_bad_input([&] { files.read(); }, {files.images.string()});
  }
}

TEST(Idx, RefusesADamagedGzip) {
  const IdxFiles files;
  std::string packed = gzip(idx({2, 2, 3}, "abcdefghijkl"));
  packed[packed.size() - 6] = static_cast<char>(~packed[packed.size() - 6]);
  files.folder.write("images", packed);
  expect_bad_input([&] { files.read(); }, {files.images.string(), "damaged", "replace the file"});
}

TEST(Idx, RefusesAWrongMagic) {
  const IdxFiles files;
  files.folder.write("images", idx({2}, "ab"));
  expect_bad_input([&] { files.read(); },
                   {files.images.string(), "not an IDX file", "00000801", "00000803"});
  files.folder.write("images", gzip("<html>404</html>"));
  expect_bad_input([&] { files.read(); }, {files.images.string(), "not an IDX file"});
}

TEST(Idx, RefusesTrailingBytes) {
  const IdxFiles files;
  files.folder.write("labels", idx({2}, "\x01\x01\x01"));
  expect_bad_input([&] { files.read(); }, {files.labels.string(), "trailing bytes"});
  files.folder.write("labels", gzip(idx({2}, "\x01\x01\x01")));
  expect_bad_input([&] { files.read(); }, {files.labels.string(), "trailing bytes"});
}

TEST(Idx, RefusesDifferentCountsOfImagesAndLabels) {
  const IdxFiles files;
  files.folder.write("labels", idx({3}, {'\x01', '\x01', '\x01'}));
  expect_bad_input([&] { files.read(); },
                   {files.images.string(), "2 images", files.labels.string(), "3 labels"});
}

TEST(Idx, RefusesALabelOutOfRange) {
  const IdxFiles files;
  files.folder.write("labels", idx({2}, {'\x01', '\x03'}));
  expect_bad_input([&] { files.read(); },
                   {files.labels.string(), "label 3 of sample 1", "expected 0 to 2"});
}

TEST(Idx, ChecksAHostileHeaderBeforeAskingForMemory) {
  const IdxFiles files;
  files.folder.write("images", idx({0xffffffff, 0xff, 0xff}, "x"));
  expect_bad_input([&] { files.read(); }, {files.images.string()});
  files.folder.write("images", idx({0xffffffff, 0xffffffff, 0xffffffff}, "x"));
  expect_bad_input([&] { files.read(); }, {files.images.string(), "invalid dimensions"});
  files.folder.write("images", gzip(idx({0xffffffff, 0xff, 0xff}, "x")));
  expect_bad_input([&] { files.read(); }, {files.images.string(), "gzip"});
  files.folder.write("images", idx({0, 2, 3}, ""));
  expect_bad_input([&] { files.read(); }, {files.images.string(), "invalid dimensions"});
}

}  // namespace
}  // namespace lockstep::data
