#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>

#include <memory>
#include <string>

/// Fused layers over *blocked* images, [sample][channel / 8][row][column][8]. Images stay blocked
/// from the first convolution to the last pooling; one operation replaces three or four of
/// LibTorch.
///
///     const auto y = lockstep::nn::ConvBn(conv1, bn1)(x);     // relu(bn1(conv1(x)))
///     const auto z = lockstep::nn::ConvBn(conv2, bn2)(y, y);  // relu(bn2(conv2(y)) + y)
///     return fc(lockstep::nn::mean_pool(z));
///
/// Parameters stay in `conv` and `bn`, under the names of your state dict. Inputs may be blocked or
/// plain. Layers that the kernels do not support (another device or type than float32 on a CPU with
/// AVX2; channels that are not a multiple of 8; groups; dilation) are computed by LibTorch, with a
/// plain result. Which kernel is used depends only on the layer, its input's shape and the CPU, so
/// it is the same in every run.
///
/// A layer prepares its weights at the first call and whenever they have changed. It may be used by
/// one thread at a time. Second derivatives are not supported.
namespace lockstep::nn {

/// Which kernels compute a layer.
enum class Kernels {
  fused,  ///< Lockstep's, where they support the layer
  torch,  ///< LibTorch's
};

/// Activation after a layer.
enum class Activation {
  none,  ///< identity
  relu,  ///< max(x, 0)
};

/// Converts a blocked image to LibTorch's layout, [sample][channel][row][column]. Returns other
/// tensors unchanged.
torch::Tensor plain(const torch::Tensor& x);

class Layer;

/// activation(bn(conv(x)) + residual). `conv` must have no bias.
class ConvBn {
 public:
  /// Shares `conv` and `bn` with the caller. Throws BadInput if `conv` has a bias.
  ConvBn(torch::nn::Conv2d conv, torch::nn::BatchNorm2d bn,
         Activation activation = Activation::relu, Kernels kernels = Kernels::fused);

  /// Without `residual`, nothing is added.
  torch::Tensor operator()(const torch::Tensor& x, const torch::Tensor& residual = {});

  /// The kernel of the last call: "winograd", "packed", "direct" or "torch".
  std::string served_by() const;

 private:
  torch::nn::Conv2d conv_;
  torch::nn::BatchNorm2d bn_;
  Activation activation_;
  std::shared_ptr<Layer> layer_;
};

/// relu(max_pool2d(conv(x), 2)), with `conv`'s bias.
class ConvMaxPool {
 public:
  /// Shares `conv` with the caller.
  explicit ConvMaxPool(torch::nn::Conv2d conv, Kernels kernels = Kernels::fused);

  /// The result has half as many rows and columns.
  torch::Tensor operator()(const torch::Tensor& x);
  /// The kernel of the last call: "winograd", "packed", "direct" or "torch".
  std::string served_by() const;

 private:
  torch::nn::Conv2d conv_;
  std::shared_ptr<Layer> layer_;
};

/// The mean over rows and columns: [sample][channel].
torch::Tensor mean_pool(const torch::Tensor& x);

/// Every `stride`-th row and column, with `zero_channels` channels of zeros before and after those
/// of x: the shortcut without parameters of a residual network. The result is blocked if x is and
/// `zero_channels` is a multiple of 8.
torch::Tensor subsample(const torch::Tensor& x, int64_t stride, int64_t zero_channels);

/// layer(x), several times as fast: which numbers are dropped follows from one number that is drawn
/// from LibTorch's generator, so that they are others than those that LibTorch itself drops.
torch::Tensor dropout(torch::nn::DropoutImpl& layer, const torch::Tensor& x,
                      Kernels kernels = Kernels::fused);

/// How losses of samples are combined.
enum class Reduce {
  mean,  ///< mean
  sum,   ///< sum
};

/// Mean or sum over samples of -log softmax(scores)[label], with label smoothing as in
/// torch::cross_entropy_loss. `scores` is [sample][class].
torch::Tensor cross_entropy(const torch::Tensor& scores, const torch::Tensor& labels,
                            double label_smoothing = 0, Kernels kernels = Kernels::fused,
                            Reduce reduce = Reduce::mean);

/// relu(bn(conv(x)) + residual) as a module with the children "conv" and "bn".
class ConvBnReluImpl : public torch::nn::Module {
 public:
  /// `options` are those of the convolution, which gets no bias.
  explicit ConvBnReluImpl(const torch::nn::Conv2dOptions& options);
  /// relu(bn(conv(x)) + residual).
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& residual = {});

  torch::nn::Conv2d conv;     ///< the child "conv"
  torch::nn::BatchNorm2d bn;  ///< the child "bn"

 private:
  ConvBn fused_;
};
TORCH_MODULE(ConvBnRelu);

}  // namespace lockstep::nn
