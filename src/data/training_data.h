#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/augment.h"
#include "data/normalization.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

/// What to train on, as a recipe says it.
struct DataOptions {
  /// A name of datasets(), with its argument if it takes one: "npy:DIR".
  std::string name = "fashion-mnist";
  /// The share of samples held out as the test split, where the data set has no test split itself.
  double test_fraction = 0.1;
  /// Chooses the held-out samples.
  int64_t hold_out_seed = 1;
  Augment augment = {};
  bool normalize = true;
  /// What the data set itself is asked: the recipe's [data.options].
  Options options = {};
};

/// A data set, ready to train on.
struct TrainingData {
  /// As a model reads them: the training split is augmented, both are normalized.
  Splits splits;
  /// sha256 over both splits as they came: equal digests, equal data.
  std::string digest;
  /// What was measured on the training split, by input. Empty ones: as it came.
  std::vector<Normalization> normalization;
  double load_seconds = 0;
};

/// Both splits as they come, one held out where there is none. Throws BadInput naming the file,
/// what is wrong and the cure.
Splits load_splits(const DataOptions& options);

/// For batches of `batch` samples, augmented by random numbers that follow from `seed`. Throws
/// BadInput.
std::shared_ptr<const TrainingData> load_training_data(const DataOptions& options, int64_t batch,
                                                       uint64_t seed);

}  // namespace lockstep::data
