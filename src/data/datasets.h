#pragma once

#include <filesystem>
#include <string>

#include "base/table.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

struct DatasetRow {
  std::string name;
  std::string about;
  /// The argument after the colon, as in npy:DIR: "DIR". Empty: no argument, or any.
  std::string argument;
  /// Loads both splits, or the training split alone.
  Splits (*make)(const DatasetOptions& options);
};

/// The data sets that `data.name` may name.
Table<DatasetRow>& datasets();

/// Loads the data set `name` ("mnist", "npy:DIR"). Throws BadInput for an unknown name, an unknown
/// option, and splits with different fields. Reading a sample with a label beyond the declared
/// classes throws it too.
Splits load_dataset(const std::string& name, const Options& options);

/// The name with an absolute path, if its argument is a folder: "npy:DIR".
std::string with_absolute_path(const std::string& name);

/// For makers of the data set `name`: throw BadInput if there is an argument, or if it is not an
/// existing folder.
void refuse_argument(const DatasetOptions& options, const std::string& name);
std::filesystem::path folder_argument(const DatasetOptions& options, const std::string& name);

}  // namespace lockstep::data
