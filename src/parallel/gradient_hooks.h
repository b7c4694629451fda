#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "parallel/autograd_node.h"
#include "parallel/parameters.h"

namespace lockstep::parallel {

/// Calls back with a parameter's number each time a backward pass has computed its gradient, from
/// the thread that computed it, as long as this exists.
///
/// LibTorch calls hooks of a parameter's *accumulator*, the node of the autograd graph that adds up
/// its gradient. A parameter gets another one when its memory is replaced, as torch::load does.
class GradientHooks {
 public:
  using OnGradient = std::function<void(size_t parameter)>;

  /// Throws BadInput with the parameter's name if another GradientHooks has hooked it.
  GradientHooks(Parameters parameters, OnGradient on_gradient);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  /// Call it before every forward pass: moves hooks to accumulators that are new.
  void renew();

 private:
  struct Hook {
    NodePointer accumulator;
    uintptr_t key;
  };
  void attach(size_t parameter);

  const Parameters parameters_;
  const std::shared_ptr<const OnGradient> on_gradient_;
  std::vector<Hook> hooks_;  ///< by parameter
};

}  // namespace lockstep::parallel
