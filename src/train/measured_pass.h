#pragma once

#include <c10/core/Device.h>

#include "fit/meter.h"
#include "lockstep/dataset.h"
#include "lockstep/objective.h"
#include "parallel/model_part.h"
#include "train/outputs.h"

namespace lockstep::train {

/// For messages about a pass of so many samples.
CallPlace place_of_measured_pass(int64_t samples);

/// Copies without history, of which gradients can be asked.
Tensors received(const Tensors& tensors);

/// Inputs of the layer after these, without history.
Tensors outputs_without_gradients(const parallel::ModelPart& layers, const Tensors& inputs,
                                  int64_t samples);

/// One forward and one backward pass of a model's part, as a training step runs them; gradients are
/// dropped as soon as they are there. `kept` and `peak` are left to the caller, who knows what is
/// in use before.
fit::PassCost run_pass(const parallel::ModelPart& part, const Tensors& inputs, const Batch& batch,
                       Objective& objective, c10::Device device);

}  // namespace lockstep::train
