#pragma once

#include <vector>

#include "lockstep/batch.h"
#include "lockstep/dataset.h"
#include "lockstep/model.h"
#include "train/user_code.h"

namespace lockstep::train {

/// The model's outputs for a batch, each in the shape that the objective expects; one with as many
/// elements is reshaped. Throws Error if forward() throws, and BadInput if an expected output is
/// missing or has another number of elements: the objective's arithmetic might broadcast it.
Tensors outputs_of(Model& model, const std::vector<Field>& expected, const Batch& batch,
                   const CallPlace& place);

}  // namespace lockstep::train
