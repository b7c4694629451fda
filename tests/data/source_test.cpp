#include "data/source.h"

#include <algorithm>

#include "data/catalog.h"
#include "data/written_files.h"
#include "data/written_images.h"
#include "expect_error.h"
#include "scoped_variable.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

TEST(Source, LoadsFashionMnistFromItsDebianPackage) {
  const TemporaryFolder empty;
  const ScopedVariable home("LOCKSTEP_DATA", empty.path());
  const Splits splits = load({});
  EXPECT_EQ(splits.train.size(), 60'000);
  EXPECT_EQ(splits.test.size(), 10'000);
  EXPECT_EQ(splits.train.shape, (Shape{1, 28, 28}));
  EXPECT_EQ(splits.train.class_names.at(9), "Ankle boot");
  EXPECT_EQ(splits.train.labels.at(0), 9);
  for (int32_t label = 0; label < 10; ++label)
    EXPECT_EQ(std::count(splits.train.labels.begin(), splits.train.labels.end(), label), 6'000);
  EXPECT_EQ(splits.digest.size(), 64U);
}

TEST(Source, LoadsMnistFromTheDataFolder) {
  const TemporaryFolder home;
  const ScopedVariable variable("LOCKSTEP_DATA", home.path());
  home.write("mnist/train-images-idx3-ubyte", idx({2, 1, 1}, "ab"));
  home.write("mnist/train-labels-idx1-ubyte", idx({2}, "\x01\x02"));
  home.write("mnist/t10k-images-idx3-ubyte.gz", gzip(idx({1, 1, 1}, "c")));
  home.write("mnist/t10k-labels-idx1-ubyte.gz", gzip(idx({1}, "\x03")));
  const Splits splits = load({.name = "mnist"});
  EXPECT_EQ(splits.train.labels, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(splits.test.labels, (std::vector<int32_t>{3}));
  EXPECT_EQ(splits.train.class_names.at(7), "7");

  home.write("mnist/t10k-images-idx3-ubyte", idx({1, 2, 1}, "cd"));
  expect_bad_input([] { load({.name = "mnist"}); }, {"1 x 1 x 1", "1 x 2 x 1"});
}

TEST(Source, SaysHowToGetAMissingDataSet) {
  const TemporaryFolder home;
  const ScopedVariable variable("LOCKSTEP_DATA", home.path());
  expect_bad_input(
      [] { load({.name = "mnist"}); },
      {(home / "mnist").string(), "train-images-idx3-ubyte", "lockstep data get mnist"});
  expect_bad_input([] { load({.name = "cifar10"}); },
                   {"data_batch_1.bin", "lockstep data get cifar10"});
  const std::vector<std::filesystem::path> folders = {home / "fashion-mnist"};
  expect_bad_input([&] { folder_with(catalog_entry("fashion-mnist"), folders); },
                   {"apt-get install dataset-fashion-mnist"});
}

TEST(Source, NamesTheFileThatAHalfPresentDataSetLacks) {
  const TemporaryFolder home;
  const ScopedVariable variable("LOCKSTEP_DATA", home.path());
  for (const std::string name :
       {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte"})
    home.write("mnist/" + name, "");
  expect_bad_input([] { load({.name = "mnist"}); }, {"has no t10k-labels-idx1-ubyte;"});
}

TEST(Source, RefusesACifarFileOfAWrongSize) {
  const TemporaryFolder home;
  const ScopedVariable variable("LOCKSTEP_DATA", home.path());
  for (const CatalogFile& file : catalog_entry("cifar10").files)
    home.write("cifar10/" + file.name, "short");
  expect_bad_input([] { load({.name = "cifar10"}); }, {"data_batch_1.bin", "30730000", "5 follow"});
}

TEST(Source, SuggestsTheNearestName) {
  expect_bad_input([] { load({.name = "minst"}); },
                   {"data 'minst'", "did you mean 'mnist'?", "npy:DIR or folder:DIR"});
}

TEST(Source, RefusesAPathThatIsNoFolder) {
  expect_bad_input([] { load({.name = "npy:/does/not/exist"}); },
                   {"there is no folder /does/not/exist"});
  expect_bad_input([] { load({.name = "folder:"}); }, {"say which folder", "folder:DIR"});
  const TemporaryFolder folder;
  expect_bad_input([&] { load({.name = folder.path().string()}); },
                   {"npy:" + folder.path().string()});
  const auto file = folder.write("x.npy", "");
  expect_bad_input([&] { load({.name = "npy:" + file.string()}); }, {"is a file"});
}

TEST(Source, LoadsNpyAndImageFolders) {
  const TemporaryFolder folder;
  folder.write("n/x.npy", npy("<f4", {4}, raw<float>({1, 2, 3, 4})));
  folder.write("n/y.npy", npy("<i8", {4}, raw<int64_t>({0, 0, 1, 1})));
  EXPECT_EQ(load({.name = "npy:" + (folder / "n").string()}).train.shape, (Shape{1}));
  write_png(folder / "i/a/1.png", picture(3, 2, 1));
  write_png(folder / "i/a/2.png", picture(3, 2, 1));
  EXPECT_EQ(load({.name = "folder:" + (folder / "i").string()}).train.shape, (Shape{1, 2, 3}));
}

TEST(Source, GivesEqualDigestsToEqualDataOnly) {
  Dataset one;
  one.shape = {2};
  one.values = std::vector<uint8_t>{1, 2, 3, 4};
  one.labels = {0, 1};
  const std::string digest = digest_of(one, one);
  EXPECT_EQ(digest_of(one, one), digest);

  Dataset other = one;
  other.labels[1] = 0;
  EXPECT_NE(digest_of(other, one), digest);
  EXPECT_NE(digest_of(one, other), digest);
  other = one;
  std::get<std::vector<uint8_t>>(other.values)[3] = 5;
  EXPECT_NE(digest_of(other, one), digest);
  other = one;
  other.shape = {1, 2};
  EXPECT_NE(digest_of(other, one), digest);
}

TEST(Source, FindsTheDataFolderByEnvironment) {
  {
    const ScopedVariable variable("LOCKSTEP_DATA", "/somewhere");
    EXPECT_EQ(data_home(), "/somewhere");
  }
  const ScopedVariable none("LOCKSTEP_DATA", "");
  {
    const ScopedVariable variable("XDG_DATA_HOME", "/xdg");
    EXPECT_EQ(data_home(), "/xdg/lockstep");
  }
  const ScopedVariable no_xdg("XDG_DATA_HOME", "");
  const ScopedVariable variable("HOME", "/home/ada");
  EXPECT_EQ(data_home(), "/home/ada/.local/share/lockstep");
}

TEST(Dataset, DescribesItsShape) {
  EXPECT_EQ(to_string({1, 28, 28}), "1 x 28 x 28");
  EXPECT_EQ(elements({3, 4, 5}), 60);
  EXPECT_EQ(checked_elements(Shape{int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
  EXPECT_EQ(checked_elements(Shape{-1}), std::nullopt);
}

}  // namespace
}  // namespace lockstep::data
