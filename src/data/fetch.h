#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/training_data.h"

namespace lockstep::data {

/// Where a fetch has got to: "downloading", 12 MB of 139 MB. Without a total, only what it does.
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

/// Brings a data set into data_home(): downloads (continuing a broken download), unpacks, converts
/// to the official binary files and checks their digests; files already there and right are not
/// made again, and each appears only when whole. Returns the folder. Throws BadInput.
std::filesystem::path fetch(const FetchOptions& options);

/// Loads a data set and reads every sample once, after comparing the files of a named one with
/// their digests. Throws BadInput naming the first file or sample that is wrong.
Splits check(const DataOptions& options);

struct CatalogState {
  std::string name;
  std::string about;  ///< "60,000 + 10,000 grey images of clothes, 28 x 28, 10 classes"
  std::filesystem::path folder;
  bool present = false;
  std::string how_to_get;  ///< a command
};

/// Every data set of the catalog and whether it is here.
std::vector<CatalogState> list_catalog();

}  // namespace lockstep::data
