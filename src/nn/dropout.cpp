// The mask of a dropout is a function of one number that the forward pass draws from LibTorch's
// generator: the backward pass computes it again, and nothing but that number is kept.
#include "kernels/dropout.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <limits>

#include "kernels/cpu.h"
#include "lockstep/nn.h"
#include "nn/layer.h"

namespace lockstep::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// 64 random bits.
uint64_t draw() {
  const Tensor number = at::empty({}, torch::kInt64);
  number.random_(std::numeric_limits<int64_t>::min(), torch::optional<int64_t>());
  return static_cast<uint64_t>(number.item<int64_t>());
}

kernels::Drop drop_with(uint64_t seed, double probability) {
  return {seed, static_cast<uint32_t>(std::lround(probability * 0x1p32 - 0.5)),
          static_cast<float>(1 / (1 - probability))};
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, double probability) {
    const uint64_t seed = draw();
    context->saved_data["seed"] = static_cast<int64_t>(seed);
    context->saved_data["probability"] = probability;
    return dropped(seed, probability, x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require_no_second_derivative();
    const auto seed = static_cast<uint64_t>(context->saved_data["seed"].toInt());
    return {dropped(seed, context->saved_data["probability"].toDouble(), gradients[0].contiguous()),
            Tensor()};
  }

 private:
  static Tensor dropped(uint64_t seed, double probability, const Tensor& x) {
    const Tensor y = at::empty_like(x);
    kernels::dropout()(drop_with(seed, probability), x.numel(), data(x), data(y));
    return y;
  }
};

}  // namespace

torch::Tensor dropout(torch::nn::DropoutImpl& layer, const torch::Tensor& x, Kernels kernels) {
  const double probability = layer.options.p();
  const bool ours = kernels == Kernels::fused && kernels::supported() && is_plain_float(x) &&
                    !layer.options.inplace() && probability > 0 && probability < 1;
  if (!ours || !layer.is_training()) return layer.forward(x);
  return DropoutFunction::apply(x.contiguous(), probability);
}

}  // namespace lockstep::nn
