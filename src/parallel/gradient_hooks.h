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

/// Calls back with a parameter's number each time a backward pass has finished its gradient, from
/// the thread that computed it. As long as this lives.
class GradientHooks {
 public:
  /// Throws BadInput, naming it, for a parameter that another one of these has hooked.
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
