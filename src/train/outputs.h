#pragma once

#include <vector>

#include "lockstep/batch.h"
#include "lockstep/dataset.h"
#include "parallel/model_part.h"
#include "train/user_code.h"

namespace lockstep::train {

/// What a part of the model computes. Throws Error if forward() throws.
Tensors forward_of(const parallel::ModelPart& part, const Tensors& inputs, const CallPlace& place);

/// The outputs of the model's last part, each in the shape that the objective expects; one with as
/// many elements is reshaped. Throws also BadInput if an expected output is missing or has another
/// number of elements than `place.samples` samples have: the objective's arithmetic might broadcast
/// it.
Tensors outputs_of(const parallel::ModelPart& part, const Tensors& inputs,
                   const std::vector<Field>& expected, const CallPlace& place);

}  // namespace lockstep::train
