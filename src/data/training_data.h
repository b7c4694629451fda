#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/augment.h"
#include "data/normalization.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

/// The recipe's [data]: what to train on.
struct DataOptions {
  /// A name of datasets(), with its argument if it takes one: "npy:DIR".
  std::string name = "fashion-mnist";
  /// The fraction of samples that is held out as test split if the data set has none.
  double test_fraction = 0.1;
  /// The seed that selects the held-out samples.
  int64_t hold_out_seed = 1;
  Augment augment = {};
  bool normalize = true;
  /// Options of the data set: the recipe's [data.options].
  Options options = {};
};

/// A data set, ready to train on.
struct TrainingData {
  /// As a model reads them: both splits are normalized, and the training split is augmented.
  Splits splits;
  Fields fields;  ///< before normalization
  /// sha256 over the digests of both splits, before augmentation and normalization.
  std::string digest;
  /// Measured on the training split, by input; empty for inputs that are not normalized.
  std::vector<Normalization> normalization;
  double load_seconds = 0;
};

/// Both splits, without augmentation and normalization; a missing test split is held out. Throws
/// BadInput with the file, what is wrong and how to correct it.
Splits load_splits(const DataOptions& options);

/// Loads data for batches of `batch` samples, augmented with random numbers from `seed`. Throws
/// BadInput.
std::shared_ptr<const TrainingData> load_training_data(const DataOptions& options, int64_t batch,
                                                       uint64_t seed);

}  // namespace lockstep::data
