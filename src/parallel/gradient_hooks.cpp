#include "parallel/gradient_hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::parallel {
namespace {

using OnGradient = std::function<void(size_t parameter)>;

class CallBack : public torch::autograd::FunctionPostHook {
 public:
  CallBack(std::shared_ptr<OnGradient> on_gradient, size_t parameter)
      : on_gradient_(std::move(on_gradient)), parameter_(parameter) {}

  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& outputs,
      const torch::autograd::variable_list& /*inputs*/) override {
    (*on_gradient_)(parameter_);
    return outputs;
  }

 private:
  const std::shared_ptr<OnGradient> on_gradient_;
  const size_t parameter_;
};

bool calls_back(const torch::autograd::Node& accumulator) {
  const auto& hooks = accumulator.post_hooks();
  return std::any_of(hooks.begin(), hooks.end(), [](const auto& hook) {
    return dynamic_cast<const CallBack*>(hook.get()) != nullptr;
  });
}

}  // namespace

GradientHooks::GradientHooks(const Parameters& parameters, OnGradient on_gradient) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    // A parameter refers to its accumulator only weakly, so the hook must keep it alive.
    hooks_.push_back({torch::autograd::impl::grad_accumulator(parameters.tensors[i]), 0});
    if (calls_back(*hooks_.back().accumulator))
      throw BadInput(
          "parameter '{}' is already in another DistributedDataParallel; destroy that one first",
          parameters.names[i]);
  }
  const auto shared = std::make_shared<OnGradient>(std::move(on_gradient));
  for (size_t i = 0; i < hooks_.size(); ++i)
    hooks_[i].key = hooks_[i].accumulator->add_post_hook(std::make_unique<CallBack>(shared, i));
}

GradientHooks::~GradientHooks() {
  for (const Hook& hook : hooks_) hook.accumulator->del_post_hook(hook.key);
}

}  // namespace lockstep::parallel
