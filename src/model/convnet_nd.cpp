// Convnets for series and videos: two 3-wide convolutions with ReLU, each followed by a pooling
// that halves every dimension, then the mean over what is left, dropout 0.5 and a dense layer.
// Option: width, the channels of the first convolution; the second has twice as many.
#include <fmt/ranges.h>
#include <torch/nn/functional/pooling.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lockstep/sequential_model.h"
#include "model/models.h"

namespace lockstep::model {
namespace {

constexpr int64_t kSmallestSide = 4;  // so that two poolings leave something
constexpr int64_t kMostChannels = 65'536;

int64_t width_from(const ModelOptions& options) {
  const int64_t width = options.options.integer("width", 32);
  if (width < 1 || width > kMostChannels)
    throw BadInput("model.options.width = {}: expected 1 to {}", width, kMostChannels);
  return width;
}

// {steps, features}, convolved over steps.
struct Series {
  using Conv = torch::nn::Conv1d;
  using ConvOptions = torch::nn::Conv1dOptions;
  static constexpr const char* kSample = "series (steps x features)";
  static constexpr size_t kDimensions = 2;
  static constexpr size_t kChannels = 1;  ///< the dimension of channels
  static torch::Tensor channels_first(const torch::Tensor& x) { return x.transpose(1, 2); }
  static torch::Tensor pool(const torch::Tensor& x) { return torch::max_pool1d(x, 2); }
};

// {frames, channels, height, width}, convolved over frames and pixels.
struct Video {
  using Conv = torch::nn::Conv3d;
  using ConvOptions = torch::nn::Conv3dOptions;
  static constexpr const char* kSample = "videos (frames x channels x height x width)";
  static constexpr size_t kDimensions = 4;
  static constexpr size_t kChannels = 1;
  static torch::Tensor channels_first(const torch::Tensor& x) { return x.transpose(1, 2); }
  static torch::Tensor pool(const torch::Tensor& x) { return torch::max_pool3d(x, 2); }
};

template <typename Kind>
void require_samples_of(const ModelOptions& options) {
  const Shape& input = options.input();
  bool large_enough = input.size() == Kind::kDimensions;
  for (size_t i = 0; i < input.size(); ++i)
    large_enough = large_enough && (i == Kind::kChannels || input[i] >= kSmallestSide);
  if (!large_enough)
    throw BadInput(
        "model '{}': needs {} with at least {} in every dimension but the {}, but a sample is {}{}",
        options.name, Kind::kSample, kSmallestSide,
        Kind::kDimensions == 2 ? "features" : "channels", fmt::join(input, " x "),
        Kind::kDimensions == 2 && input.size() == 2 && input[1] >= kSmallestSide
            ? "; if it is features x steps, save x.transpose(0, 2, 1)"
            : "");
}

template <typename Kind>
class ConvNetNd final : public SequentialModel {
 public:
  explicit ConvNetNd(const ModelOptions& options)
      : conv1_(register_module("conv1",
                               convolution(options.input()[Kind::kChannels], width_from(options)))),
        conv2_(register_module("conv2", convolution(width_from(options), 2 * width_from(options)))),
        dropout_(register_module("dropout", torch::nn::Dropout(0.5))),
        fc_(register_module("fc",
                            torch::nn::Linear(2 * width_from(options), options.output_size()))) {
    add_layer("conv1", {"conv1"}, [this](const Tensors& inputs) {
      const torch::Tensor x = Kind::channels_first(inputs.only()).contiguous();
      return Kind::pool(torch::relu(conv1_(x)));
    });
    add_layer("conv2", {"conv2"},
              [this](const Tensors& x) { return Kind::pool(torch::relu(conv2_(x.only()))); });
    add_layer("fc", {"dropout", "fc"}, [this, kernels = options.kernels](const Tensors& x) {
      return fc_(nn::dropout(*dropout_, x.only().flatten(2).mean(2), kernels));
    });
  }

 private:
  using Conv = typename Kind::Conv;
  using ConvOptions = typename Kind::ConvOptions;

  static Conv convolution(int64_t before, int64_t after) {
    return Conv(ConvOptions(before, after, 3).padding(1));
  }

  Conv conv1_;
  Conv conv2_;
  torch::nn::Dropout dropout_;
  torch::nn::Linear fc_;
};

template <typename Kind>
std::shared_ptr<Model> make_convnet(const ModelOptions& options) {
  require_samples_of<Kind>(options);
  return std::make_shared<ConvNetNd<Kind>>(options);
}

const bool convnet1d_added = models().add(
    {"convnet1d", "two convolutions and pooling for series (steps x features); option: width",
     make_convnet<Series>});
const bool convnet3d_added = models().add(
    {"convnet3d",
     "two convolutions and pooling for videos (frames x channels x height x width); option: width",
     make_convnet<Video>});

}  // namespace
}  // namespace lockstep::model
