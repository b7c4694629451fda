#include "data/datasets.h"

#include <algorithm>

#include "data/catalog.h"
#include "data/some_datasets.h"
#include "data/written_files.h"
#include "data/written_images.h"
#include "expect_error.h"
#include "scoped_variable.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

// A test split that is like the training split but for what the argument says.
Splits make_unlike(const DatasetOptions& options) {
  const Fields train = {{{"x", Type::f32, {2}}}, {{"y", Type::u8, {}, {"no", "yes"}}}};
  Fields test = train;
  if (options.argument == "name") test.inputs[0].name = "z";
  if (options.argument == "type") test.inputs[0].type = Type::u8;
  if (options.argument == "shape") test.inputs[0].shape = {2, 1};
  if (options.argument == "categories") test.targets[0].categories = {"no", "yes", "perhaps"};
  if (options.argument == "count") test.targets.clear();
  if (options.argument == "no sample") return {zeros(train, 4), zeros(test, 0)};
  return {zeros(train, 4), zeros(test, 2)};
}

// A training split alone, of so many samples of so many values.
Splits make_sized(const DatasetOptions& options) {
  const int64_t size = options.options.integer("size", 3);
  const int64_t width = options.options.integer("width", 1);
  return {zeros({{{"x", Type::f32, {width}}}, {}}, size), nullptr};
}

Splits make_nothing(const DatasetOptions& options) {
  refuse_argument(options, "test-nothing");
  return {};
}

const bool test_rows_added =
    datasets().add({"test-unlike", "splits that differ", "HOW", make_unlike}) &&
    datasets().add({"test-sized", "a training split alone", "", make_sized}) &&
    datasets().add({"test-nothing", "nothing", "", make_nothing});

TEST(LoadDataset, LoadsFashionMnistFromItsDebianPackage) {
  const TemporaryFolder empty;
  const ScopedVariable home("LOCKSTEP_DATA", empty.path());
  const Splits splits = load_dataset("fashion-mnist", {});
  EXPECT_EQ(splits.train->size(), 60'000);
  EXPECT_EQ(splits.test->size(), 10'000);
  EXPECT_EQ(splits.train->fields().inputs.at(0).shape, (Shape{1, 28, 28}));
  EXPECT_EQ(class_names_of(*splits.train).at(9), "Ankle boot");
  const std::vector<int64_t> labels = read_labels(*splits.train);
  EXPECT_EQ(labels.at(0), 9);
  for (int64_t label = 0; label < 10; ++label)
    EXPECT_EQ(std::count(labels.begin(), labels.end(), label), 6'000);
}

TEST(LoadDataset, LoadsMnistFromTheDataFolder) {
  const TemporaryFolder home;
  const ScopedVariable variable("LOCKSTEP_DATA", home.path());
  home.write("mnist/train-images-idx3-ubyte", idx({2, 1, 1}, "ab"));
  home.write("mnist/train-labels-idx1-ubyte", idx({2}, "\x01\x02"));
  home.write("mnist/t10k-images-idx3-ubyte.gz", gzip(idx({1, 1, 1}, "c")));
  home.write("mnist/t10k-labels-idx1-ubyte.gz", gzip(idx({1}, "\x03")));
  const Splits splits = load_dataset("mnist", {});
  EXPECT_EQ(read_labels(*splits.train), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(read_labels(*splits.test), (std::vector<int64_t>{3}));
  EXPECT_EQ(read_field<uint8_t>(*splits.train, 0), (std::vector<uint8_t>{'a', 'b'}));
  EXPECT_EQ(read_field<uint8_t>(*splits.test, 0), (std::vector<uint8_t>{'c'}));
  EXPECT_EQ(class_names_of(*splits.train).at(7), "7");

  home.write("mnist/t10k-images-idx3-ubyte", idx({1, 2, 1}, "cd"));
  expect_bad_input([] { load_dataset("mnist", {}); }, {"1 x 1 x 1", "1 x 2 x 1"});
}

TEST(LoadDataset, SaysHowToGetAMissingDataSet) {
  const TemporaryFolder home;
  const ScopedVariable variable("LOCKSTEP_DATA", home.path());
  expect_bad_input(
      [] { load_dataset("mnist", {}); },
      {(home / "mnist").string(), "train-images-idx3-ubyte", "lockstep data get mnist"});
  expect_bad_input([] { load_dataset("cifar10", {}); },
                   {"data_batch_1.bin", "lockstep data get cifar10"});
}

TEST(LoadDataset, NamesTheFileThatAHalfPresentDataSetLacks) {
  const TemporaryFolder home;
  const ScopedVariable variable("LOCKSTEP_DATA", home.path());
  for (const std::string name :
       {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte"})
    home.write("mnist/" + name, "");
  expect_bad_input([] { load_dataset("mnist", {}); }, {"has no t10k-labels-idx1-ubyte;"});
}

TEST(LoadDataset, RefusesACifarFileOfAWrongSize) {
  const TemporaryFolder home;
  const ScopedVariable variable("LOCKSTEP_DATA", home.path());
  for (const CatalogFile& file : catalog_entry("cifar10").files)
    home.write("cifar10/" + file.name, "short");
  expect_bad_input([] { load_dataset("cifar10", {}); },
                   {"data_batch_1.bin", "30730000", "found 5"});
}

TEST(LoadDataset, SuggestsTheNearestName) {
  expect_bad_input([] { load_dataset("minst", {}); },
                   {"data 'minst'", "did you mean 'mnist'?", "cifar10, fashion-mnist, folder:DIR",
                    "npy:DIR", "test-unlike:HOW", "--load LIBRARY"});
  expect_bad_input([] { load_dataset("nyp:/somewhere", {}); },
                   {"data 'nyp:/somewhere'", "did you mean 'npy'?"});
}

TEST(LoadDataset, RefusesAPathThatIsNoFolder) {
  expect_bad_input([] { load_dataset("npy:/does/not/exist", {}); },
                   {"no such folder: /does/not/exist"});
  for (const std::string name : {"folder", "npy"}) {
    expect_bad_input([&] { load_dataset(name + ":", {}); }, {"expected a folder", name + ":DIR"});
    expect_bad_input([&] { load_dataset(name, {}); }, {"expected a folder", name + ":DIR"});
  }
  const TemporaryFolder folder;
  const auto file = folder.write("x.npy", "");
  expect_bad_input([&] { load_dataset("npy:" + file.string(), {}); }, {"is a file"});
}

TEST(LoadDataset, SaysHowToNameAFolder) {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  expect_bad_input([&] { load_dataset(path, {}); },
                   {"is a folder", "npy:" + path, "folder:" + path});
}

TEST(LoadDataset, RefusesAnArgumentWhereNoneIsTaken) {
  for (const std::string name : {"mnist", "fashion-mnist", "cifar10", "test-nothing"})
    expect_bad_input([&] { load_dataset(name + ":here", {}); },
                     {"data '" + name + ":here'", name + " takes no argument"});
}

TEST(LoadDataset, KeepsColonsInAnArgument) {
  expect_bad_input([] { load_dataset("npy:/does:not:exist", {}); },
                   {"no such folder: /does:not:exist"});
}

TEST(LoadDataset, LoadsNpyAndImageFolders) {
  const TemporaryFolder folder;
  folder.write("n/x.npy", npy("<f4", {4}, raw<float>({1, 2, 3, 4})));
  folder.write("n/y.npy", npy("<i8", {4}, raw<int64_t>({0, 0, 1, 1})));
  const Splits rows = load_dataset("npy:" + (folder / "n").string(), {});
  EXPECT_EQ(rows.train->fields().inputs.at(0).shape, (Shape{1}));
  EXPECT_EQ(rows.test, nullptr);
  write_png(folder / "i/a/1.png", picture(3, 2, 1));
  write_png(folder / "i/a/2.png", picture(3, 2, 1));
  const Splits images = load_dataset("folder:" + (folder / "i").string(), {});
  EXPECT_EQ(images.train->fields().inputs.at(0).shape, (Shape{1, 2, 3}));
  EXPECT_EQ(images.test, nullptr);
}

TEST(LoadDataset, GivesTheMakerItsOptions) {
  const Splits splits = load_dataset("test-sized", {{"size", "5"}, {"width", "7"}});
  EXPECT_EQ(splits.train->size(), 5);
  EXPECT_EQ(splits.train->fields().inputs.at(0).shape, (Shape{7}));
  EXPECT_EQ(splits.test, nullptr);
}

TEST(LoadDataset, SuggestsTheNearestOption) {
  expect_bad_input([] { load_dataset("test-sized", {{"siez", "5"}}); },
                   {"data set 'test-sized'", "'siez'", "did you mean 'size'?", "size, width"});
  expect_bad_input([] { load_dataset("test-sized", {{"size", "many"}}); },
                   {"size", "many", "whole number"});
}

TEST(LoadDataset, RefusesOptionsWhereNoneAreTaken) {
  expect_bad_input([] { load_dataset("test-unlike", {{"layout", "channels_last"}}); },
                   {"data set 'test-unlike'", "no options", "'layout'"});
}

TEST(LoadDataset, RefusesSplitsThatDiffer) {
  const auto load = [](const std::string& how) { return load_dataset("test-unlike:" + how, {}); };
  EXPECT_EQ(load("in nothing").test->size(), 2);
  expect_bad_input([&] { load("name"); }, {"training split has 'x'", "test split 'z'", "names"});
  expect_bad_input([&] { load("type"); }, {"'x' of type f32", "'x' of type u8"});
  expect_bad_input([&] { load("shape"); }, {"shape 2,", "shape 2 x 1"});
  expect_bad_input([&] { load("categories"); }, {"'y'", "2 categories", "3 categories"});
  expect_bad_input([&] { load("count"); }, {"different numbers of inputs or targets"});
}

TEST(LoadDataset, ChecksBothSplits) {
  expect_bad_input([] { load_dataset("test-unlike:no sample", {}); }, {"test split has 0 samples"});
  expect_bad_input([] { load_dataset("test-sized", {{"size", "0"}}); },
                   {"training split has 0 samples"});
  expect_bad_input([] { load_dataset("test-sized", {{"width", "0"}}); },
                   {"field 'x' of the training split"});
}

TEST(LoadDataset, RefusesAMakerThatReturnsNothing) {
  expect_bad_input([] { load_dataset("test-nothing", {}); },
                   {"data 'test-nothing'", "returned no training split"});
}

}  // namespace
}  // namespace lockstep::data
