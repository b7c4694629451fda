#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "parallel/parameters.h"

namespace torch::autograd {
struct Node;
}

namespace lockstep::parallel {

/// Calls back with a parameter's number each time a backward pass has computed its gradient, from
/// the thread that computed it, as long as this exists.
class GradientHooks {
 public:
  /// Throws BadInput with the parameter's name if another GradientHooks has hooked it.
  GradientHooks(const Parameters& parameters, std::function<void(size_t parameter)> on_gradient);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  struct Hook {
    std::shared_ptr<torch::autograd::Node> accumulator;
    uintptr_t key;
  };
  std::vector<Hook> hooks_;
};

}  // namespace lockstep::parallel
