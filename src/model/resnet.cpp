// Residual networks. A *block* is conv-bn-relu-conv-bn plus a shortcut, then ReLU; a *group* is a
// row of blocks with one number of channels (torchvision calls it "layer"). The first block of
// every group but the first halves the image and so needs a shortcut that does the same.
//
// resnet20 to resnet110 are He et al.'s CIFAR nets: three groups of (depth - 2) / 6 blocks with 16,
// 32 and 64 channels, and shortcuts without parameters (subsample, then pad channels with zeros).
// resnet18 is ResNet-18 in its CIFAR form (a 3 x 3 first convolution and no first pooling), with 64
// to 512 channels and projection shortcuts. State-dict names are torchvision's.
//
// Option: zero_gamma starts each block's last BatchNorm at zero, so that every block begins as the
// identity, which helps large batches.
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <optional>

#include "lockstep/sequential_model.h"
#include "model/models.h"

namespace lockstep::model {
namespace {

// BatchNorm needs more than one value per channel, even for one sample: 2 x 2 at the end.
constexpr int64_t kSmallestForTwoHalvings = 5;
constexpr int64_t kSmallestForThreeHalvings = 9;

enum class Shortcut { zero_pad, projection };

torch::nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

class BlockImpl final : public torch::nn::Module {
 public:
  BlockImpl(int64_t in, int64_t out, int64_t stride, Shortcut shortcut, nn::Kernels kernels)
      : stride_(stride),
        added_channels_(out - in),
        conv1_(register_module("conv1", conv(in, out, 3, stride))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(out))),
        conv2_(register_module("conv2", conv(out, out, 3, 1))),
        bn2_(register_module("bn2", torch::nn::BatchNorm2d(out))),
        first_(conv1_, bn1_, nn::Activation::relu, kernels),
        second_(conv2_, bn2_, nn::Activation::relu, kernels) {
    if (stride == 1 || shortcut == Shortcut::zero_pad) return;
    torch::nn::Conv2d projection = conv(in, out, 1, stride);
    torch::nn::BatchNorm2d norm(out);
    register_module("downsample", torch::nn::Sequential(projection, norm));
    projection_.emplace(projection, norm, nn::Activation::none, kernels);
  }

  torch::Tensor forward(const torch::Tensor& x) { return second_(first_(x), shortcut(x)); }

  void zero_last_gamma() { torch::nn::init::zeros_(bn2_->weight); }

  std::vector<Model::LayerKernel> kernels() const {
    std::vector<Model::LayerKernel> served = {{"conv1", first_.served_by()},
                                              {"conv2", second_.served_by()}};
    if (projection_) served.push_back({"downsample.0", projection_->served_by()});
    return served;
  }

 private:
  torch::Tensor shortcut(const torch::Tensor& x) {
    if (stride_ == 1) return x;
    if (projection_) return (*projection_)(x);
    return nn::subsample(x, stride_, added_channels_ / 2);
  }

  int64_t stride_;
  int64_t added_channels_;
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
  nn::ConvBn first_;
  nn::ConvBn second_;
  std::optional<nn::ConvBn> projection_;
};
TORCH_MODULE(Block);

struct GroupPlan {
  int64_t channels;
  int64_t blocks;
};

class ResNet final : public SequentialModel {
 public:
  ResNet(const ModelOptions& options, const std::vector<GroupPlan>& plan, Shortcut shortcut) {
    int64_t channels = plan.front().channels;
    const auto conv1 = register_module("conv1", conv(options.input()[0], channels, 3, 1));
    const auto bn1 = register_module("bn1", torch::nn::BatchNorm2d(channels));
    first_.emplace(conv1, bn1, nn::Activation::relu, options.kernels);
    add_layer("conv1", {"conv1", "bn1"},
              [this](const Tensors& inputs) { return (*first_)(inputs.only()); });
    for (size_t number = 0; number < plan.size(); ++number) {
      const GroupPlan& group = plan[number];
      torch::nn::Sequential blocks;
      for (int64_t i = 0; i < group.blocks; ++i) {
        const int64_t stride = i == 0 && number > 0 ? 2 : 1;
        blocks->push_back(Block(channels, group.channels, stride, shortcut, options.kernels));
        channels = group.channels;
      }
      const std::string name = fmt::format("layer{}", number + 1);
      add_layers(name, register_module(name, std::move(blocks)));
    }
    const auto fc = register_module("fc", torch::nn::Linear(channels, options.output_size()));
    add_layer("fc", {"fc"},
              [fc](const Tensors& x) { return fc->forward(nn::mean_pool(x.only())); });
    set_initial_weights(options.options.flag("zero_gamma", false));
  }

  std::vector<Model::LayerKernel> kernels() const override {
    std::vector<Model::LayerKernel> served = {{"conv1", first_->served_by()}};
    for (const auto& item : named_modules("", /*include_self=*/false))
      if (const auto* block = item.value()->as<Block>(); block != nullptr)
        for (const Model::LayerKernel& layer : block->kernels())
          served.push_back({item.key() + "." + layer.layer, layer.served_by});
    return served;
  }

 private:
  void set_initial_weights(bool zero_gamma) {
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* convolution = module->as<torch::nn::Conv2d>())
        torch::nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
      if (auto* block = module->as<Block>(); block != nullptr && zero_gamma)
        block->zero_last_gamma();
    }
  }

  std::optional<nn::ConvBn> first_;
};

template <int64_t depth>
std::shared_ptr<Model> make_cifar_resnet(const ModelOptions& options) {
  require_image(options, kSmallestForTwoHalvings);
  constexpr int64_t kBlocks = (depth - 2) / 6;
  return std::make_shared<ResNet>(
      options, std::vector<GroupPlan>{{16, kBlocks}, {32, kBlocks}, {64, kBlocks}},
      Shortcut::zero_pad);
}

std::shared_ptr<Model> make_resnet18(const ModelOptions& options) {
  require_image(options, kSmallestForThreeHalvings);
  return std::make_shared<ResNet>(
      options, std::vector<GroupPlan>{{64, 2}, {128, 2}, {256, 2}, {512, 2}}, Shortcut::projection);
}

template <int64_t depth>
bool add_cifar_resnet() {
  return models().add(
      {fmt::format("resnet{}", depth),
       fmt::format("residual net of {} layers for small images; option: zero_gamma", depth),
       make_cifar_resnet<depth>});
}

const bool resnets_added =
    models().add({"resnet18", "ResNet-18 for small images, 64 to 512 channels; option: zero_gamma",
                  make_resnet18}) &&
    add_cifar_resnet<20>() && add_cifar_resnet<32>() && add_cifar_resnet<44>() &&
    add_cifar_resnet<56>() && add_cifar_resnet<110>();

}  // namespace
}  // namespace lockstep::model
