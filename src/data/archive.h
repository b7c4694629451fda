#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::data {

/// A file that was found in an archive or a folder.
struct FoundFile {
  std::string name;   ///< without its folders
  std::string where;  ///< its path for messages, with the archive or folder
  /// Returns the contents; gzip files in a folder are unpacked. Throws BadInput if they are damaged
  /// or larger than any file of a data set.
  std::function<std::vector<std::byte>()> read;
};

using Visit = std::function<void(const FoundFile&)>;

/// Calls `visit` for every regular file of a tar archive (plain or gzip), in its order. Nothing is
/// unpacked to disk, so the archive's paths do no harm. Throws BadInput if it is damaged.
void visit_archive(const std::filesystem::path& path, const Visit& visit);

/// Calls `visit` for the regular files directly in a folder, in the order of their names.
void visit_folder(const std::filesystem::path& folder, const Visit& visit);

}  // namespace lockstep::data
