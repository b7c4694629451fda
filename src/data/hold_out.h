#pragma once

#include <cstdint>

#include "data/dataset.h"

namespace lockstep::data {

/// Sets aside `fraction` of the samples (at least one, never all) as the test split, chosen by
/// `seed`; both splits keep the order of `all`. The digest is left empty. Throws BadInput.
Splits hold_out(const Dataset& all, double fraction, uint64_t seed);

}  // namespace lockstep::data
