#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/dataset.h"

namespace lockstep::data {

/// How a data set that lacks splits is divided.
struct HoldOut {
  /// The fraction of samples that is held out as test split.
  double test_fraction = 0.1;
  /// The fraction of the other samples that is held out as validation split; 0: there is none.
  double validation_fraction = 0;
  /// The seed that selects the held-out samples.
  int64_t seed = 1;

  bool operator==(const HoldOut&) const = default;
};

/// Adds the splits that are missing: a fraction of the training samples (at least one, never all)
/// becomes the test split, and of the rest the validation split. All splits keep the order of the
/// samples. Throws BadInput.
Splits hold_out(Splits splits, const HoldOut& options);

}  // namespace lockstep::data
