#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <memory>
#include <string>

/// Layers that keep images *blocked*, [sample][channel / 8][row][column][8], from the first
/// convolution to the last pooling, and do in one operation what LibTorch does in three or four.
///
///     x = lockstep::nn::ConvBn(conv1, bn1)(x);                  // relu(bn1(conv1(x)))
///     y = lockstep::nn::ConvBn(conv2, bn2)(y, x);               // relu(bn2(conv2(y)) + x)
///     return fc(lockstep::nn::mean_pool(y));
///
/// Parameters stay where and as they are in `conv` and `bn`; state-dict names are yours. Tensors
/// may come in either layout. Where the kernels do not serve a layer (another device or type than
/// float32 on a CPU with AVX2; channels not in eights; groups, dilation) it is LibTorch's, and its
/// result plain: the rule looks at nothing that changes from run to run.
///
/// A layer prepares its weights, and again when they have changed, whoever changed them how. It is
/// for one thread at a time. Gradients of gradients are not there.
namespace lockstep::nn {

enum class Kernels {
  fused,  ///< ours, wherever they serve
  torch,  ///< LibTorch's
};

enum class Activation { none, relu };

/// A blocked image as LibTorch wants it, [sample][channel][row][column]; others as they are.
torch::Tensor plain(const torch::Tensor& x);

class Layer;

/// activation(bn(conv(x)) + residual). `conv` has no bias.
class ConvBn {
 public:
  ConvBn(torch::nn::Conv2d conv, torch::nn::BatchNorm2d bn,
         Activation activation = Activation::relu, Kernels kernels = Kernels::fused);

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
  explicit ConvMaxPool(torch::nn::Conv2d conv, Kernels kernels = Kernels::fused);

  torch::Tensor operator()(const torch::Tensor& x);
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

enum class Reduce { mean, sum };

/// The mean or sum over samples of -log softmax(scores)[label], as torch::cross_entropy_loss has it
/// with label smoothing. `scores` are [sample][class].
torch::Tensor cross_entropy(const torch::Tensor& scores, const torch::Tensor& labels,
                            double label_smoothing = 0, Kernels kernels = Kernels::fused,
                            Reduce reduce = Reduce::mean);

/// conv - bn - ReLU as a module, with the children "conv" and "bn".
class ConvBnReluImpl : public torch::nn::Module {
 public:
  explicit ConvBnReluImpl(const torch::nn::Conv2dOptions& options);
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& residual = {});

  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d bn;

 private:
  ConvBn fused_;
};
TORCH_MODULE(ConvBnRelu);

}  // namespace lockstep::nn
