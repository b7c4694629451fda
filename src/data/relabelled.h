#pragma once

#include <memory>

#include "lockstep/dataset.h"

namespace lockstep::data {

/// The data set with its class labels numbered as in `fields`, by the names of classes. Throws
/// BadInput if its inputs or targets are not those of `fields`, or if it has a class that `fields`
/// lacks.
std::shared_ptr<const Dataset> relabelled(std::shared_ptr<const Dataset> dataset,
                                          const Fields& fields);

}  // namespace lockstep::data
