#include "kernels/pooling.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/lanes.h"
#include "nn/layer.h"

namespace lockstep::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

kernels::PoolShape pool_shape(const kernels::ConvShape& shape) {
  const int64_t blocks = shape.out_channels / kernels::kLanes;
  return {shape.samples * blocks, blocks, shape.out_height(), shape.out_width()};
}

// The convolution's result is not saved: the backward pass needs only which of four pixels was
// chosen.
class ConvMaxPoolFunction : public torch::autograd::Function<ConvMaxPoolFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const torch::optional<Tensor>& with_bias,
                        const c10::intrusive_ptr<Kept>& layer) {
    const Tensor bias = with_bias.value_or(Tensor());
    const Tensor z = convolve(*layer->convolution, weight, x);
    const kernels::PoolShape shape = pool_shape(layer->convolution->shape());
    const Tensor y =
        at::empty({z.size(0), z.size(1), shape.out_height(), shape.out_width(), kernels::kLanes},
                  z.options());
    const Tensor chosen = at::empty(y.sizes(), torch::kUInt8);
    kernels::pooling<float>().max_relu(shape, data(z), data(bias), data(y),
                                       chosen.data_ptr<uint8_t>());
    context->save_for_backward({x, weight, bias, chosen});
    keep(*context, layer, x);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require_no_second_derivative();
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &chosen = saved[3];
    const kernels::ConvShape& shape = kept(*context).shape();
    const Tensor dz = empty_result(shape);
    const Tensor dbias = bias.defined() ? at::empty_like(bias) : Tensor();
    kernels::pooling<float>().max_relu_gradient(pool_shape(shape), data(gradients[0].contiguous()),
                                                chosen.data_ptr<uint8_t>(), data(dz), data(dbias));
    const auto [dx, dweight] = convolution_gradients(*context, x, weight, dz);
    return {dx, dweight, dbias, Tensor()};
  }
};

bool has_pixels_to_pool(const kernels::ConvShape& shape) {
  return shape.out_height() >= 2 && shape.out_width() >= 2;
}

class MeanPoolFunction : public torch::autograd::Function<MeanPoolFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    context->saved_data["sizes"] = x.sizes().vec();
    const Tensor y = at::empty({x.size(0), x.size(1) * kernels::kLanes}, x.options());
    kernels::pooling<float>().mean(x.size(0) * x.size(1), x.size(2) * x.size(3), data(x), data(y));
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require_no_second_derivative();
    const std::vector<int64_t> sizes = context->saved_data["sizes"].toIntVector();
    const Tensor dy = gradients[0].contiguous();
    const Tensor dx = at::empty(sizes, dy.options());
    kernels::pooling<float>().mean_gradient(sizes[0] * sizes[1], sizes[2] * sizes[3], data(dy),
                                            data(dx));
    return {dx};
  }
};

}  // namespace

ConvMaxPool::ConvMaxPool(torch::nn::Conv2d conv, Kernels kernels)
    : conv_(std::move(conv)), layer_(std::make_shared<Layer>(kernels)) {}

torch::Tensor ConvMaxPool::operator()(const torch::Tensor& x) {
  const std::optional<Input> input = layer_->accept(*conv_, x);
  // ReLU and max-pooling commute, and ReLU after pooling handles a quarter of the values.
  if (!input || !has_pixels_to_pool(Layer::shape_for(*conv_, *input)))
    return at::max_pool2d(conv_(plain(x)), 2).relu_();
  const auto convolution = layer_->prepare(*conv_, *input);
  return ConvMaxPoolFunction::apply(
      input->x, conv_->weight,
      conv_->bias.defined() ? torch::optional<Tensor>(conv_->bias) : torch::nullopt,
      c10::make_intrusive<Kept>(layer_, convolution));
}

std::string ConvMaxPool::served_by() const {
  return layer_->served_by();
}

torch::Tensor mean_pool(const torch::Tensor& x) {
  const bool ours = is_blocked(x) && x.device().is_cpu() && x.scalar_type() == torch::kFloat32;
  return ours ? MeanPoolFunction::apply(x.contiguous()) : plain(x).mean({2, 3});
}

torch::Tensor subsample(const torch::Tensor& x, int64_t stride, int64_t zero_channels) {
  const Tensor small = x.slice(2, 0, torch::nullopt, stride).slice(3, 0, torch::nullopt, stride);
  if (!is_blocked(x) || zero_channels % kernels::kLanes != 0)
    return at::constant_pad_nd(plain(small), {0, 0, 0, 0, zero_channels, zero_channels});
  const int64_t zero_blocks = zero_channels / kernels::kLanes;
  return at::constant_pad_nd(small, {0, 0, 0, 0, 0, 0, zero_blocks, zero_blocks});
}

}  // namespace lockstep::nn
