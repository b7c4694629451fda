#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/dataset.h"

namespace lockstep::data {

/// Divides a data set: `fraction` of the samples (at least one, never all), chosen by `seed`,
/// become the test split. Both splits keep the order of `all`. Throws BadInput.
Splits hold_out(const std::shared_ptr<const Dataset>& all, double fraction, uint64_t seed);

}  // namespace lockstep::data
