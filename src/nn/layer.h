#pragma once

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>
#include <torch/nn/modules/conv.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/memory_account.h"
#include "kernels/convolution.h"
#include "lockstep/nn.h"

namespace lockstep::nn {

/// Whether x is a blocked image.
bool is_blocked(const torch::Tensor& x);
/// The inverse of `plain`. The number of channels must be a multiple of 8.
torch::Tensor blocked(const torch::Tensor& x);

/// A convolution's input in the layout that the kernels need.
struct Input {
  torch::Tensor x;
  kernels::ImageLayout layout;
};

/// What a layer keeps between calls: prepared convolutions for the input shapes of the last calls,
/// and the weights that they were prepared from. Where memory is limited it keeps those alone that
/// a backward pass still needs, and the one in use. For one thread at a time.
class Layer {
 public:
  explicit Layer(Kernels kernels) : kernels_(kernels) {}

  /// The input for the kernels, or nothing if LibTorch must compute this call.
  std::optional<Input> accept(const torch::nn::Conv2dImpl& conv, const torch::Tensor& x);

  static kernels::ConvShape shape_for(const torch::nn::Conv2dImpl& conv, const Input& input);

  /// The convolution for that input.
  std::shared_ptr<kernels::Convolution> prepare(const torch::nn::Conv2dImpl& conv,
                                                const Input& input);

  /// Call it before weights are used: discards what `convolution` prepared from other weights.
  void notice_changed(const torch::Tensor& weight, kernels::Convolution& convolution);

  std::string served_by() const { return served_by_; }

 private:
  struct PreparedConvolution {
    kernels::ImageLayout layout;
    kernels::Convolution convolution;
    MemoryCharge kept;  ///< the weights that the convolution keeps
  };

  void discard_unused();

  const Kernels kernels_;
  std::vector<std::shared_ptr<PreparedConvolution>> entries_;
  std::vector<float> weights_;  ///< from which the convolutions were prepared
  std::string served_by_;
};

/// A layer's convolution, which the forward pass saves for the backward pass.
struct Kept : torch::CustomClassHolder {
  Kept(std::shared_ptr<Layer> owner, std::shared_ptr<kernels::Convolution> one)
      : layer(std::move(owner)), convolution(std::move(one)) {}

  const std::shared_ptr<Layer> layer;  ///< which tells it when weights have changed
  const std::shared_ptr<kernels::Convolution> convolution;
};
/// Whether the kernels can read it: float32 on the CPU.
bool is_plain_float(const torch::Tensor& x);

/// Call it at the start of every backward pass: throws BadInput if that is itself to be
/// differentiated.
void require_no_second_derivative();

/// Also saves whether x needs a gradient.
void keep(torch::autograd::AutogradContext& context, const c10::intrusive_ptr<Kept>& kept,
          const torch::Tensor& x);
kernels::Convolution& kept(torch::autograd::AutogradContext& context);

/// x convolved.
torch::Tensor convolve(kernels::Convolution& convolution, const torch::Tensor& weight,
                       const torch::Tensor& x);

/// The gradients of the saved convolution. That of x is undefined if x needs none.
struct ConvolutionGradients {
  torch::Tensor x;
  torch::Tensor weight;
};
ConvolutionGradients convolution_gradients(torch::autograd::AutogradContext& context,
                                           const torch::Tensor& x, const torch::Tensor& weight,
                                           const torch::Tensor& dz);

/// A tensor's data, or nullptr for an undefined tensor.
inline float* data(const torch::Tensor& t) {
  return t.defined() ? t.data_ptr<float>() : nullptr;
}

/// An uninitialised blocked image, for the result of a convolution.
torch::Tensor empty_result(const kernels::ConvShape& shape);

}  // namespace lockstep::nn
