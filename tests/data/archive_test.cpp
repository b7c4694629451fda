#include "data/archive.h"

#include <map>

#include "base/atomic_file.h"
#include "data/written_archive.h"
#include "data/written_files.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

using Contents = std::map<std::string, std::string>;

std::string text_of(const FoundFile& found) {
  const std::vector<std::byte> bytes = found.read();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Contents all_of(const std::filesystem::path& archive) {
  Contents contents;
  visit_archive(archive, [&](const FoundFile& found) { contents[found.name] = text_of(found); });
  return contents;
}

TEST(Archive, ShowsEachFileByItsLastName) {
  const TemporaryFolder folder;
  const std::string large(1'000'000, 'x');
  write_archive(folder / "a.tgz", {{"package/data/one", "1"}, {"package/two", large}});
  EXPECT_EQ(all_of(folder / "a.tgz"), (Contents{{"one", "1"}, {"two", large}}));
}

TEST(Archive, PassesOverWhatIsNotRead) {
  const TemporaryFolder folder;
  write_archive(folder / "a.tgz", {{"one", std::string(500'000, 'x')}, {"two", "2"}});
  std::vector<std::string> names;
  visit_archive(folder / "a.tgz", [&](const FoundFile& found) { names.push_back(found.name); });
  EXPECT_EQ(names, (std::vector<std::string>{"one", "two"}));
}

TEST(Archive, NeverWritesWhereAnArchivePoints) {
  const TemporaryFolder folder;
  write_archive(folder / "a.tgz", {{"../escaped", "x"}, {"/tmp/../absolute", "y"}});
  EXPECT_EQ(all_of(folder / "a.tgz"), (Contents{{"escaped", "x"}, {"absolute", "y"}}));
  EXPECT_FALSE(std::filesystem::exists(folder.path().parent_path() / "escaped"));
}

TEST(Archive, RefusesADamagedOne) {
  const TemporaryFolder folder;
  std::string contents;
  for (int i = 0; i < 100'000; ++i) contents += std::to_string(i * 7919 % 10'007);
  write_archive(folder / "a.tgz", {{"one", contents}});
  const std::string whole = read_file(folder / "a.tgz");
  folder.write("a.tgz", whole.substr(0, whole.size() / 2));
  expect_bad_input([&] { all_of(folder / "a.tgz"); },
                   {(folder / "a.tgz").string(), "not a readable .tgz"});
  folder.write("a.tgz", "<html>404</html>");
  expect_bad_input([&] { all_of(folder / "a.tgz"); }, {(folder / "a.tgz").string()});
}

TEST(Archive, RefusesAnEntryLargerThanAnyDataSetsFile) {
  const TemporaryFolder folder;
  write_archive(folder / "a.tgz", {{"one", std::string(65 << 20, '\0')}});
  expect_bad_input([&] { all_of(folder / "a.tgz"); }, {"(one)", "larger than"});
}

TEST(ArchiveFolder, UnpacksGzip) {
  const TemporaryFolder folder;
  folder.write("b.gz", gzip("packed"));
  folder.write("a", "plain");
  folder.write("sub/c", "not here");
  std::vector<std::string> seen;
  visit_folder(folder.path(),
               [&](const FoundFile& found) { seen.push_back(found.name + "=" + text_of(found)); });
  EXPECT_EQ(seen, (std::vector<std::string>{"a=plain", "b.gz=packed"}));
}

}  // namespace
}  // namespace lockstep::data
