#include "model/convnet.h"

#include <fmt/ranges.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/error.h"

namespace lockstep::model {
namespace {

constexpr int64_t kSmallestImage = 10;

class ConvNet final : public Model {
 public:
  explicit ConvNet(const ModelOptions& options)
      : conv1_(register_module("conv1", torch::nn::Conv2d(options.input[0], 32, 3))),
        conv2_(register_module("conv2", torch::nn::Conv2d(32, 64, 3))),
        first_(conv1_, options.kernels),
        second_(conv2_, options.kernels),
        dropout_(register_module("dropout", torch::nn::Dropout(0.5))),
        fc_(register_module("fc", torch::nn::Linear(64 * after_pools(options.input[1]) *
                                                        after_pools(options.input[2]),
                                                    options.classes))) {}

  torch::Tensor forward(torch::Tensor x) override {
    return fc_(dropout_(nn::plain(second_(first_(x))).flatten(1)));
  }

  std::vector<LayerKernel> kernels() const override {
    return {{"conv1", first_.served_by()}, {"conv2", second_.served_by()}};
  }

 private:
  // Each convolution takes a border of one pixel, each pooling halves.
  static int64_t after_pools(int64_t side) { return ((side - 2) / 2 - 2) / 2; }

  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  nn::ConvMaxPool first_;
  nn::ConvMaxPool second_;
  torch::nn::Dropout dropout_;
  torch::nn::Linear fc_;
};

}  // namespace

void require_image(const ModelOptions& options, int64_t smallest) {
  const auto& input = options.input;
  if (input.size() != 3)
    throw BadInput(
        "model.name '{}': needs images (channels x height x width), but a sample is {}; {}",
        options.name, fmt::join(input, " x "),
        input.size() == 2 ? "grey images want a channel, x[:, None]; other data a model that takes "
                            "any shape, mlp or logistic"
                          : "mlp and logistic take any shape");
  if (input[1] >= smallest && input[2] >= smallest) return;
  const bool channels_may_be_last = input[2] <= 4 && input[0] >= smallest;
  throw BadInput(
      "model.name '{}': needs images of at least {} x {} pixels, but a sample is {} "
      "(channels x height x width){}",
      options.name, smallest, smallest, fmt::join(input, " x "),
      channels_may_be_last ? "; where the channels come last, set data.layout = "
                             "\"channels_last\""
                           : "");
}

std::shared_ptr<Model> make_convnet(const ModelOptions& options) {
  require_image(options, kSmallestImage);
  return std::make_shared<ConvNet>(options);
}

}  // namespace lockstep::model
