#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::parallel {

/// The state of LibTorch's default generator of random numbers, from which CPUs and virtual devices
/// draw.
at::Tensor generator_state();
void set_generator_state(const at::Tensor& state);

/// Gives the generator back as it was: what is drawn meanwhile does not change what the caller
/// draws afterwards, which must be the same on all workers.
class KeptGenerator {
 public:
  KeptGenerator() : state_(generator_state()) {}
  KeptGenerator(const KeptGenerator&) = delete;
  KeptGenerator& operator=(const KeptGenerator&) = delete;
  ~KeptGenerator() { set_generator_state(state_); }

 private:
  const at::Tensor state_;
};

}  // namespace lockstep::parallel
