#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "parallel/worlds.h"

/// Parameters and gradients for tests of optimizers.
namespace lockstep::optimized {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

/// Odd sizes, no dimensions, no elements, other strides, another type, one that is not trained.
inline Tensors some_parameters(torch::Device device = torch::kCPU) {
  Tensors parameters = seeded(1, [] {
    return Tensors{torch::randn({3}),
                   torch::randn({130, 7}),
                   torch::randn({}),
                   torch::randn({1000}),
                   torch::randn({77}, torch::kDouble),
                   torch::randn({5, 4, 3, 3}).contiguous(torch::MemoryFormat::ChannelsLast),
                   torch::randn({0}),
                   torch::randn({200})};
  });
  for (Tensor& parameter : parameters) parameter = parameter.to(device).requires_grad_();
  parameters.back().requires_grad_(false);
  return parameters;
}

/// As a backward pass would leave them. Parameter 3 has none in every third step.
inline void set_gradients(const Tensors& parameters, int step) {
  const Tensors gradients = seeded(static_cast<uint64_t>(100 + step), [&] {
    Tensors made;
    for (const Tensor& parameter : parameters)
      made.push_back(torch::randn(parameter.sizes(), torch::kDouble));
    return made;
  });
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor parameter = parameters[i];
    parameter.mutable_grad() = Tensor();
    if (!parameter.requires_grad() || (i == 3 && step % 3 == 0)) continue;
    Tensor gradient = gradients[i].to(parameter.scalar_type());
    // As DistributedDataParallel gives it; once with other strides than the parameter's, for which
    // LibTorch's loops round 16-bit numbers differently.
    const bool has_other_strides = step == 1 && parameter.element_size() > 2;
    if (i == 5 && !has_other_strides)
      gradient = gradient.contiguous(torch::MemoryFormat::ChannelsLast);
    parameter.mutable_grad() = gradient.to(parameter.device());
  }
}

inline void expect_same_bits(const Tensors& a, const Tensors& b, const std::string& where) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(a[i].detach().cpu().equal(b[i].detach().cpu())) << where << ", parameter " << i;
}

inline Tensors copies(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.detach().clone());
  return result;
}

/// Steps `from` .. `to`-1.
template <typename Optimizer>
void train(Optimizer& optimizer, const Tensors& parameters, int from, int to) {
  for (int step = from; step < to; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
  }
}

}  // namespace lockstep::optimized
