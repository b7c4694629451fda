#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <memory>
#include <string>

/// Layers that keep images *blocked*, [sample][channel / 8][row][column][8], from the first
/// convolution to the last pooling, and do in one operation what LibTorch does in three or four.
///
///     const auto y = lockstep::nn::ConvBn(conv1, bn1)(x);     // relu(bn1(conv1(x)))
///     const auto z = lockstep::nn::ConvBn(conv2, bn2)(y, y);  // relu(bn2(conv2(y)) + y)
///     return fc(lockstep::nn::mean_pool(z));
///
/// Parameters stay where and as they are in `conv` and `bn`; state-dict names are yours. Tensors
/// may come in either layout. Where the kernels do not serve a layer (another device or type than
/// float32 on a CPU with AVX2; channels not in eights; groups, dilation) it is LibTorch's, and its
/// result plain: the rule looks at nothing that changes from run to run.
///
/// A layer prepares its weights at the first call, and again whenever they have changed. It is for
/// one thread at a time. There are no gradients of gradients.
namespace lockstep::nn {

/// Whose kernels compute a layer.
enum class Kernels {
  fused,  ///< ours, wherever they serve
  torch,  ///< LibTorch's
};

/// What follows a layer.
enum class Activation {
  none,  ///< nothing
  relu,  ///< max(x, 0)
};

/// A blocked image as LibTorch wants it, [sample][channel][row][column]; others as they are.
torch::Tensor plain(const torch::Tensor& x);

class Layer;

/// activation(bn(conv(x)) + residual). `conv` has no bias.
class ConvBn {
 public:
  /// `conv` and `bn` stay shared with the caller. Throws BadInput when `conv` has a bias.
  ConvBn(torch::nn::Conv2d conv, torch::nn::BatchNorm2d bn,
         Activation activation = Activation::relu, Kernels kernels = Kernels::fused);

  /// Where `residual` is undefined nothing is added.
  torch::Tensor operator()(const torch::Tensor& x, const torch::Tensor& residual = {});

  /// Who served the last call: "winograd", "direct" or "torch".
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
  /// `conv` stays shared with the caller.
  explicit ConvMaxPool(torch::nn::Conv2d conv, Kernels kernels = Kernels::fused);

  /// Rows and columns are half as many afterwards.
  torch::Tensor operator()(const torch::Tensor& x);
  /// Who served the last call: "winograd", "direct" or "torch".
  std::string served_by() const;

 private:
  torch::nn::Conv2d conv_;
  std::shared_ptr<Layer> layer_;
};

/// The mean over rows and columns: [sample][channel].
torch::Tensor mean_pool(const torch::Tensor& x);

/// Every `stride`-th row and column, with so many channels of zeros before and after x's own: a
/// residual network's shortcut without parameters. Blocked where x is and the zeros come in eights.
torch::Tensor subsample(const torch::Tensor& x, int64_t stride, int64_t zero_channels);

/// What becomes of the losses of a batch's samples.
enum class Reduce {
  mean,  ///< their mean
  sum,   ///< their sum
};

/// The mean or sum over samples of -log softmax(scores)[label], as torch::cross_entropy_loss has it
/// with label smoothing. `scores` are [sample][class].
torch::Tensor cross_entropy(const torch::Tensor& scores, const torch::Tensor& labels,
                            double label_smoothing = 0, Kernels kernels = Kernels::fused,
                            Reduce reduce = Reduce::mean);

/// conv - bn - ReLU as a module, with the children "conv" and "bn".
class ConvBnReluImpl : public torch::nn::Module {
 public:
  /// `options` are the convolution's, which has no bias.
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
