#pragma once

#include <memory>

#include "lockstep/dataset.h"

namespace lockstep::data {

/// What a sample is checked for when it is read.
enum class ValueCheck {
  everything,  ///< inputs are finite; inputs and targets with categories are class indices
  labels,      ///< no target is beyond its categories. Negative ones pass: objectives ignore them
};

/// The same samples. Reading one throws BadInput with the field, the value and what is expected.
std::shared_ptr<const Dataset> with_checked_values(std::shared_ptr<const Dataset> dataset,
                                                   ValueCheck check);

/// Every split.
Splits with_checked_values(Splits splits, ValueCheck check);

}  // namespace lockstep::data
