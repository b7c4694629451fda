#pragma once

#include "collective/communicator.h"
#include "data/loader.h"
#include "model/model.h"
#include "train/step.h"

namespace lockstep::train {

/// Loss and accuracy over a whole data set, every sample counted exactly once. Workers take batches
/// in turns; the result is the same for every number of them. The model is left in training mode.
Totals evaluate(model::Model& model, const data::Dataset& dataset,
                const data::Normalization& normalization, collective::Communicator& group);

}  // namespace lockstep::train
