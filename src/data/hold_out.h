#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/dataset.h"

namespace lockstep::data {

/// Sets aside `fraction` of the samples (at least one, never all) as the test split, chosen by
/// `seed`; both splits keep the order of `all`. Throws BadInput.
Splits hold_out(const std::shared_ptr<const Dataset>& all, double fraction, uint64_t seed);

}  // namespace lockstep::data
