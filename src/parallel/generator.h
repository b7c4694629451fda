#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::parallel {

/// The state of LibTorch's default generator of random numbers, from which CPUs and virtual devices
/// draw.
at::Tensor generator_state();
void set_generator_state(const at::Tensor& state);

}  // namespace lockstep::parallel
