// The Simple MNIST Convnet of the Keras tutorial, for images of any size from 10 x 10:
// conv 32 - pool - conv 64 - pool - dropout 0.5 - dense.
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/sequential_model.h"
#include "model/models.h"

namespace lockstep::model {
namespace {

constexpr int64_t kSmallestImage = 10;

class ConvNet final : public SequentialModel {
 public:
  explicit ConvNet(const ModelOptions& options)
      : conv1_(register_module("conv1", torch::nn::Conv2d(options.input()[0], 32, 3))),
        conv2_(register_module("conv2", torch::nn::Conv2d(32, 64, 3))),
        first_(conv1_, options.kernels),
        second_(conv2_, options.kernels),
        dropout_(register_module("dropout", torch::nn::Dropout(0.5))),
        fc_(register_module("fc", torch::nn::Linear(64 * after_pools(options.input()[1]) *
                                                        after_pools(options.input()[2]),
                                                    options.output_size()))) {
    add_layer("conv1", {"conv1"}, [this](const Tensors& x) { return first_(x.only()); });
    add_layer("conv2", {"conv2"}, [this](const Tensors& x) { return second_(x.only()); });
    add_layer("fc", {"dropout", "fc"}, [this, kernels = options.kernels](const Tensors& x) {
      return fc_(nn::dropout(*dropout_, nn::plain(x.only()).flatten(1), kernels));
    });
  }

  std::vector<LayerKernel> kernels() const override {
    return {{"conv1", first_.served_by()}, {"conv2", second_.served_by()}};
  }

 private:
  // Each convolution removes a border of one pixel, each pooling halves the size.
  static int64_t after_pools(int64_t side) { return ((side - 2) / 2 - 2) / 2; }

  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  nn::ConvMaxPool first_;
  nn::ConvMaxPool second_;
  torch::nn::Dropout dropout_;
  torch::nn::Linear fc_;
};

const bool convnet_added = models().add(
    {"convnet", "two convolutions, pooling and dropout: the Keras tutorial's MNIST network",
     [](const ModelOptions& options) -> std::shared_ptr<Model> {
       require_image(options, kSmallestImage);
       return std::make_shared<ConvNet>(options);
     }});

}  // namespace
}  // namespace lockstep::model
