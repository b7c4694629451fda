#pragma once

#include "data/loader.h"
#include "model/model.h"
#include "train/step.h"

namespace lockstep::train {

/// Loss and accuracy over a whole data set, every sample counted exactly once. The model is left in
/// training mode.
Totals evaluate(model::Model& model, const data::Dataset& dataset,
                const data::Normalization& normalization);

}  // namespace lockstep::train
