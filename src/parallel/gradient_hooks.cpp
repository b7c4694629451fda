#include "parallel/gradient_hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::parallel {

using torch::autograd::impl::grad_accumulator;
using torch::autograd::impl::try_get_grad_accumulator;

namespace {

using OnGradient = GradientHooks::OnGradient;

class CallBack : public torch::autograd::FunctionPostHook {
 public:
  CallBack(std::shared_ptr<const OnGradient> on_gradient, size_t parameter)
      : on_gradient_(std::move(on_gradient)), parameter_(parameter) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& inputs) override {
    // A function of the user's own may return no gradient of a parameter that it has used.
    if (inputs.front().defined()) (*on_gradient_)(parameter_);
    return outputs;
  }

 private:
  const std::shared_ptr<const OnGradient> on_gradient_;
  const size_t parameter_;
};

bool calls_back(const torch::autograd::Node& accumulator) {
  const auto& hooks = accumulator.post_hooks();
  return std::any_of(hooks.begin(), hooks.end(), [](const auto& hook) {
    return dynamic_cast<const CallBack*>(hook.get()) != nullptr;
  });
}

}  // namespace

GradientHooks::GradientHooks(Parameters parameters, OnGradient on_gradient)
    : parameters_(std::move(parameters)),
      on_gradient_(std::make_shared<const OnGradient>(std::move(on_gradient))) {
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (calls_back(*grad_accumulator(parameters_.tensors[i])))
      throw BadInput(
          "parameter '{}' is already in another DistributedDataParallel or Pipeline; destroy that "
          "one first",
          parameters_.names[i]);
  hooks_.resize(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) attach(i);
}

void GradientHooks::attach(size_t parameter) {
  // A parameter refers to its accumulator only weakly, so the hook must keep it alive.
  Hook& hook = hooks_[parameter];
  hook.accumulator = grad_accumulator(parameters_.tensors[parameter]);
  hook.key = hook.accumulator->add_post_hook(std::make_unique<CallBack>(on_gradient_, parameter));
}

void GradientHooks::renew() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Hook& hook = hooks_[i];
    if (try_get_grad_accumulator(parameters_.tensors[i]) == hook.accumulator) continue;
    // One that is frozen has no accumulator and gets no gradient.
    if (!parameters_.tensors[i].requires_grad()) continue;
    hook.accumulator->del_post_hook(hook.key);
    attach(i);
  }
}

GradientHooks::~GradientHooks() {
  for (const Hook& hook : hooks_) hook.accumulator->del_post_hook(hook.key);
}

}  // namespace lockstep::parallel
