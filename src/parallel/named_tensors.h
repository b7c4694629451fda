#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "lockstep/batch.h"

namespace lockstep::parallel {

/// On another device; on their own they are the same tensors.
Tensors moved(const Tensors& tensors, c10::Device device);

/// The same elements, without history, whose changes in place autograd does not take for changes of
/// the tensors with which it shares memory: other samples of a batch.
at::Tensor with_own_version(const at::Tensor& view);

/// Some of the samples, without history: a range of dimension 0.
Tensors narrowed(const Tensors& all, int64_t begin, int64_t samples);

/// The samples of all pieces, of which there is at least one, in their order.
Tensors concatenated(const std::vector<Tensors>& pieces);

}  // namespace lockstep::parallel
