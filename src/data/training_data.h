#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/augment.h"
#include "data/hold_out.h"
#include "data/normalization.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

/// The recipe's [data]: what to train on.
struct DataOptions {
  /// A name of datasets(), with its argument if it takes one: "npy:DIR".
  std::string name = "fashion-mnist";
  HoldOut hold_out = {};
  Augment augment = {};
  /// Mix every training sample with another one; see data/mixup.h. 0: do not.
  double mixup = 0;
  bool normalize = true;
  /// Options of the data set: the recipe's [data.options].
  Options options = {};
};

/// A data set, ready to train on.
struct TrainingData {
  /// As a model reads them: all are normalized, and the training split is augmented and mixed.
  Splits splits;
  Fields fields;  ///< before normalization
  /// Of the splits before augmentation and normalization.
  std::string digest;
  /// Measured on the training split, by input; empty for inputs that are not normalized.
  std::vector<Normalization> normalization;
  double load_seconds = 0;
};

/// The splits, without augmentation and normalization; missing ones are held out. Throws BadInput
/// with the file, what is wrong and how to correct it.
Splits load_splits(const DataOptions& options);

/// sha256 over the digests of all splits.
std::string digest_of(const Splits& splits);

/// Loads data for batches of `batch` samples, augmented with random numbers from `seed`. Throws
/// BadInput.
std::shared_ptr<const TrainingData> load_training_data(const DataOptions& options, int64_t batch,
                                                       uint64_t seed);

}  // namespace lockstep::data
