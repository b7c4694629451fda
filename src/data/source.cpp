#include "data/source.h"

#include <cstdlib>
#include <string_view>

#include "base/nearest.h"
#include "data/catalog.h"
#include "data/cifar.h"
#include "data/folder.h"
#include "data/idx.h"
#include "data/npy.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNpy = "npy:";
constexpr std::string_view kFolder = "folder:";

fs::path folder_after(std::string_view prefix, const std::string& name) {
  fs::path folder = name.substr(prefix.size());
  if (folder.empty()) throw BadInput("data '{}': say which folder, as in {}DIR", name, prefix);
  if (!fs::exists(folder))
    throw BadInput("data '{}': there is no folder {}", name, fs::absolute(folder).string());
  if (!fs::is_directory(folder))
    throw BadInput("data '{}': {} is a file; give the folder it is in", name, folder.string());
  return folder;
}

Splits load_idx(const CatalogEntry& entry, const fs::path& folder) {
  const auto read = [&](const std::string& split) {
    return read_idx(*find_file(folder, split + "-images-idx3-ubyte"),
                    *find_file(folder, split + "-labels-idx1-ubyte"), entry.class_names);
  };
  Splits splits{read("train"), read("t10k"), ""};
  if (splits.train.shape != splits.test.shape)
    throw BadInput(
        "{}: training images are {}, test images {}: expected the same; get the files "
        "again",
        folder.string(), to_string(splits.train.shape), to_string(splits.test.shape));
  return splits;
}

Splits load_cifar(const CatalogEntry& entry, const fs::path& folder) {
  std::vector<fs::path> files;
  for (const CatalogFile& file : entry.files) files.push_back(*find_file(folder, file.name));
  const std::span<const fs::path> all(files);
  return {read_cifar(all.first(files.size() - 1), kCifarBatch, entry.class_names),
          read_cifar(all.last(1), kCifarBatch, entry.class_names), ""};
}

}  // namespace

Splits load_without_digest(const SourceOptions& options) {
  const std::string& name = options.name;
  if (name.starts_with(kNpy)) return load_npy(folder_after(kNpy, name), options);
  if (name.starts_with(kFolder)) return load_folder(folder_after(kFolder, name), options);
  for (const CatalogEntry& entry : catalog()) {
    if (entry.name != name) continue;
    const fs::path folder = folder_with(entry, candidate_folders(entry));
    return name == "cifar10" ? load_cifar(entry, folder) : load_idx(entry, folder);
  }
  if (fs::is_directory(name))
    throw BadInput("data '{}': is a folder; say what is in it: npy:{} or folder:{}", name, name,
                   name);
  throw BadInput(
      "data '{}': unknown{}; expected fashion-mnist, mnist, cifar10, npy:DIR or "
      "folder:DIR",
      name, did_you_mean(name, known_sources()));
}

Splits load(const SourceOptions& options) {
  Splits splits = load_without_digest(options);
  splits.digest = digest_of(splits.train, splits.test);
  return splits;
}

std::vector<std::string> known_sources() {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog()) names.push_back(entry.name);
  return names;
}

std::optional<fs::path> find_data_home() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const std::string home = variable("LOCKSTEP_DATA"); !home.empty()) return home;
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

}  // namespace lockstep::data
