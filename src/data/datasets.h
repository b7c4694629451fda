#pragma once

#include <filesystem>
#include <string>

#include "base/table.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

struct DatasetRow {
  std::string name;
  std::string about;
  /// What stands after the colon: "DIR" for npy:DIR. Empty: no argument, or any.
  std::string argument;
  /// Loads both splits, or the training split alone.
  Splits (*make)(const DatasetOptions& options);
};

/// What `data.name` may begin with.
Table<DatasetRow>& datasets();

/// Loads the data set that `name` ("mnist", "npy:DIR") says. Throws BadInput for an unknown name,
/// an option that it does not know, and splits that are not alike.
Splits load_dataset(const std::string& name, const Options& options);

/// For makers of the data set `name`: throw BadInput where there is an argument, or one that is not
/// an existing folder.
void refuse_argument(const DatasetOptions& options, const std::string& name);
std::filesystem::path folder_argument(const DatasetOptions& options, const std::string& name);

}  // namespace lockstep::data
