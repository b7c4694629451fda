#include "parallel/gradient_hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace lockstep::parallel {

GradientHooks::GradientHooks(const std::vector<torch::Tensor>& parameters,
                             std::function<void(size_t)> on_gradient) {
  using torch::autograd::variable_list;
  const auto shared = std::make_shared<std::function<void(size_t)>>(std::move(on_gradient));
  for (size_t i = 0; i < parameters.size(); ++i) {
    // A parameter only refers to its accumulator weakly: whoever hooks it keeps it.
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters[i]);
    auto hook = std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [shared, i](const variable_list& outputs, const variable_list& /*inputs*/) {
          (*shared)(i);
          return outputs;
        });
    const uintptr_t key = accumulator->add_post_hook(std::move(hook));
    hooks_.push_back({std::move(accumulator), key});
  }
}

GradientHooks::~GradientHooks() {
  for (const Hook& hook : hooks_) hook.accumulator->del_post_hook(hook.key);
}

}  // namespace lockstep::parallel
