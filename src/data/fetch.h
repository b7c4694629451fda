#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/training_data.h"

namespace lockstep::data {

/// The progress of a fetch: "downloading", 12 MB of 139 MB. A total of 0: unknown.
struct FetchProgress {
  std::string doing;
  int64_t done = 0;
  int64_t total = 0;
};

struct FetchOptions {
  std::string name;  ///< "mnist" or "cifar10"; with `from` also "fashion-mnist"
  /// Files the user already has: a folder or an archive. Empty: download them.
  std::filesystem::path from;
  std::function<void(const FetchProgress&)> progress;
};

/// Stores a data set in data_home(): downloads it (continuing an interrupted download), unpacks it,
/// converts it to the official binary files and checks their digests. Files that are already there
/// and right are kept, and each file appears only when it is complete. Returns the folder. Throws
/// BadInput.
std::filesystem::path fetch(const FetchOptions& options);

/// Loads a data set and reads every sample once: inputs must be finite, and values of fields with
/// categories class indices. For a data set of the catalog, also compares its
/// files with their digests. Throws BadInput with the first wrong file or sample.
Splits check(const DataOptions& options);

struct CatalogState {
  std::string name;
  std::string about;  ///< "60,000 + 10,000 grey images of clothes, 28 x 28, 10 classes"
  std::filesystem::path folder;
  bool present = false;
  std::string how_to_get;  ///< a command
};

/// Every data set of the catalog, and whether it is on this machine.
std::vector<CatalogState> list_catalog();

}  // namespace lockstep::data
