#pragma once

#include <torch/nn/modules/conv.h>

#include <optional>

namespace lockstep::nn {

/// A convolution without bias, padded so that stride 1 keeps the image's size if nothing else is
/// said.
inline torch::nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel = 3,
                                     int64_t stride = 1, std::optional<int64_t> padding = {}) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel)
                               .stride(stride)
                               .padding(padding.value_or(kernel / 2))
                               .bias(false));
}

}  // namespace lockstep::nn
