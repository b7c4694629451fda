#pragma once

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>
#include <torch/nn/modules/conv.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/convolution.h"
#include "lockstep/nn.h"

namespace lockstep::nn {

/// Whether x is a blocked image.
bool is_blocked(const torch::Tensor& x);
/// Its inverse is `plain`. Channels come in eights.
torch::Tensor blocked(const torch::Tensor& x);

/// A convolution's input as the kernels want it.
struct Input {
  torch::Tensor x;
  kernels::ImageLayout layout;
};

/// What a layer remembers from call to call: a convolution for every shape of input it has met, and
/// of which weights they know. For one thread at a time.
class Layer {
 public:
  explicit Layer(Kernels kernels) : kernels_(kernels) {}

  /// The input for the kernels, or nothing where LibTorch serves this call.
  std::optional<Input> accept(const torch::nn::Conv2dImpl& conv, const torch::Tensor& x);

  static kernels::ConvShape shape_for(const torch::nn::Conv2dImpl& conv, const Input& input);

  /// The convolution for that input.
  kernels::Convolution& prepare(const torch::nn::Conv2dImpl& conv, const Input& input);

  /// Before weights are used: what was made of others is forgotten.
  void notice_changed(const torch::Tensor& weight);

  std::string served_by() const { return served_by_; }

 private:
  struct PreparedConvolution {
    kernels::ImageLayout layout;
    kernels::Convolution convolution;
  };

  const Kernels kernels_;
  std::deque<PreparedConvolution> entries_;  ///< their addresses stay
  std::vector<float> weights_;               ///< as they were when the convolutions prepared them
  std::string served_by_;
};

/// A layer's convolution in an operation's memory: forward keeps it for backward.
struct Kept : torch::CustomClassHolder {
  Kept(std::shared_ptr<Layer> owner, kernels::Convolution& one)
      : layer(std::move(owner)), convolution(one) {}

  const std::shared_ptr<Layer> layer;  ///< whose it is
  kernels::Convolution& convolution;
};
/// Whether the kernels can read it: floats of this machine's memory.
bool is_plain_float(const torch::Tensor& x);

/// At the begin of every backward pass: throws BadInput where it is to be differentiated itself.
void require_no_second_derivative();

/// Keeps also whether x needs a gradient.
void keep(torch::autograd::AutogradContext& context, const c10::intrusive_ptr<Kept>& kept,
          const torch::Tensor& x);
kernels::Convolution& kept(torch::autograd::AutogradContext& context);

/// x convolved.
torch::Tensor convolve(kernels::Convolution& convolution, const torch::Tensor& weight,
                       const torch::Tensor& x);

/// The gradients of the convolution that was kept. That of x is undefined where x needed none.
struct ConvolutionGradients {
  torch::Tensor x;
  torch::Tensor weight;
};
ConvolutionGradients convolution_gradients(torch::autograd::AutogradContext& context,
                                           const torch::Tensor& x, const torch::Tensor& weight,
                                           const torch::Tensor& dz);

/// A tensor's numbers, or null where there is no tensor.
inline float* data(const torch::Tensor& t) {
  return t.defined() ? t.data_ptr<float>() : nullptr;
}

/// A blocked image's uninitialised memory: the result of a convolution.
torch::Tensor empty_result(const kernels::ConvShape& shape);

}  // namespace lockstep::nn
