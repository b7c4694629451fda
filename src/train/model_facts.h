#pragma once

#include <memory>
#include <string>

#include "fit/meter.h"
#include "lockstep/model.h"

namespace lockstep::train {

/// What is known of the model `name` before anything is measured, but the bytes of samples. Throws
/// BadInput for a model that lists its layers, but not all that they use.
fit::ModelFacts facts_of(const std::shared_ptr<Model>& model, const std::string& name);

}  // namespace lockstep::train
