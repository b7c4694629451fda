#pragma once

#include <memory>
#include <string>

#include "data/training_data.h"
#include "fit/meter.h"
#include "recipe/recipe.h"

namespace lockstep::train {

/// Measures passes of a recipe's model over its training samples, on the device that `devices`
/// selects (see device/visible.h), with the recipe's kernels and threads. Throws BadInput as the
/// set-up of a training does.
std::unique_ptr<fit::Meter> make_pass_meter(const Recipe& recipe,
                                            std::shared_ptr<const data::TrainingData> data,
                                            const std::string& devices);

}  // namespace lockstep::train
