#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/hold_out.h"
#include "data/normalization.h"
#include "lockstep/dataset.h"
#include "lockstep/options.h"
#include "run/safetensors.h"

namespace lockstep::run {

/// What is needed to use a trained model without its run. It is part of the metadata of
/// model.safetensors and of checkpoints.
struct ModelDescription {
  std::string name;  ///< the recipe's model.name
  Options options;
  std::string kernels;
  std::string precision;
  int64_t threads = 1;
  std::string objective;
  Options objective_options;
  std::string data;  ///< the recipe's data.name
  Options data_options;
  data::HoldOut hold_out;
  std::string data_sha256 = {};                    ///< empty in files of earlier versions
  Fields fields;                                   ///< as data sets have them
  std::vector<data::Normalization> normalization;  ///< by input
};

/// As metadata of a safetensors file.
Metadata to_metadata(const ModelDescription& about);

/// The description in a file's metadata. Throws BadInput if there is none: other programs write
/// files without.
ModelDescription description_of(const Safetensors& file, const std::filesystem::path& path);

/// A file with a trained model: the file itself, or for a run's folder its model.safetensors or,
/// while that is not written yet, its newest checkpoint. Throws BadInput if there is none.
struct ModelFile {
  std::filesystem::path path;
  Safetensors contents;
  ModelDescription about;
};
ModelFile open_model(const std::filesystem::path& run_or_file);

}  // namespace lockstep::run
