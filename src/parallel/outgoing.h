#pragma once

#include "lockstep/batch.h"
#include "parallel/model_part.h"
#include "parallel/stage_link.h"

namespace lockstep::parallel {

/// Whether the two have the same storage, perhaps other elements of it.
bool share_storage(const at::Tensor& one, const at::Tensor& other);

/// What a part sends to the next one. Outputs in the memory of its parameters and buffers are
/// copied, since its next forward pass may change them. Of `read_only`, which the part must not
/// change in place, views must not be changed by the next part either.
StageMessage outgoing(const ModelPart& part, const Tensors& outputs, const Tensors& read_only = {});

}  // namespace lockstep::parallel
