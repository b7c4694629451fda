// The words: z = conv(x); y = activation((z - mean) * scale + shift + residual), where mean is the
// channel's, scale = gamma * inverse deviation, shift = beta. g is y's gradient where the
// activation let it through.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "kernels/batch_norm.h"
#include "kernels/lanes.h"
#include "lockstep/error.h"
#include "nn/layer.h"

namespace lockstep::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What BatchNorm needs besides gamma and beta.
struct Norm {
  bool by_batch;  ///< false: by the running statistics
  bool updates_running;
  double epsilon;
  double momentum;
  Tensor running_mean;
  Tensor running_variance;
};

struct LayerCall {
  c10::intrusive_ptr<Kept> kept;
  kernels::Rectify activation;
  Norm norm;
};

kernels::ImageShape image_shape(const Tensor& z) {
  return {z.size(0), z.size(1), z.size(2) * z.size(3)};
}

// The mean and variance to normalise by; updates the running statistics.
struct BatchStatistics {
  Tensor mean;
  Tensor variance;
};
BatchStatistics statistics_of(const Norm& norm, const Tensor& z) {
  if (!norm.by_batch) return {norm.running_mean, norm.running_variance};
  const kernels::ImageShape shape = image_shape(z);
  BatchStatistics of = {at::empty({shape.channels()}, z.options()),
                        at::empty({shape.channels()}, z.options())};
  kernels::batch_norm<float>().statistics(shape, data(z), data(of.mean), data(of.variance));
  if (!norm.updates_running) return of;
  const auto count = static_cast<double>(shape.samples * shape.pixels);
  const auto keep = static_cast<float>(1 - norm.momentum);
  const auto take = static_cast<float>(norm.momentum);
  const auto take_unbiased = static_cast<float>(norm.momentum * count / (count - 1));
  float* mean = data(norm.running_mean);
  float* variance = data(norm.running_variance);
  for (int64_t i = 0; i < shape.channels(); ++i) {
    mean[i] = keep * mean[i] + take * data(of.mean)[i];
    variance[i] = keep * variance[i] + take_unbiased * data(of.variance)[i];
  }
  return of;
}

class ConvBnFunction : public torch::autograd::Function<ConvBnFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const Tensor& gamma, const Tensor& beta,
                        const torch::optional<Tensor>& added, const LayerCall& call) {
    const Tensor residual = added.value_or(Tensor());
    const Tensor z = convolve(*call.kept->convolution, weight, x);
    const BatchStatistics of = statistics_of(call.norm, z);
    const int64_t channels = gamma.numel();
    const Tensor inverse = at::empty({channels}, z.options());
    const Tensor scale = at::empty({channels}, z.options());
    for (int64_t i = 0; i < channels; ++i) {
      data(inverse)[i] = static_cast<float>(
          1 / std::sqrt(static_cast<double>(data(of.variance)[i]) + call.norm.epsilon));
      data(scale)[i] = data(gamma)[i] * data(inverse)[i];
    }
    const Tensor y = at::empty_like(z);
    kernels::batch_norm<float>().normalise(image_shape(z), data(z),
                                           {data(of.mean), data(scale), data(beta)}, data(residual),
                                           call.activation, data(y));
    const bool activated = call.activation == kernels::Rectify::yes;
    context->save_for_backward({x, weight, z, activated ? y : Tensor(), of.mean, inverse, scale});
    keep(*context, call.kept, x);
    context->saved_data["by_batch"] = call.norm.by_batch;
    context->saved_data["residual_needs_gradient"] = residual.defined() && residual.requires_grad();
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require_no_second_derivative();
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &z = saved[2], &y = saved[3];
    const Tensor &mean = saved[4], &inverse = saved[5], &scale = saved[6];
    const bool residual_needs_gradient = context->saved_data["residual_needs_gradient"].toBool();
    const kernels::ImageShape shape = image_shape(z);

    Tensor g = gradients[0].contiguous();
    Tensor mask = y;  // of g, until it is applied
    const Tensor masked = residual_needs_gradient && y.defined() ? at::empty_like(z) : Tensor();
    const Tensor sum_g = at::empty_like(mean), sum_gz = at::empty_like(mean);
    kernels::batch_norm<float>().gradient_sums(shape, data(g), data(mask), data(z), data(mean),
                                               {data(sum_g), data(sum_gz)}, data(masked));
    if (masked.defined()) {
      g = masked;
      mask = Tensor();
    }

    const Tensor dgamma = at::empty_like(mean);
    const Tensor of_z = at::empty_like(mean), constant = at::empty_like(mean);
    const bool by_batch = context->saved_data["by_batch"].toBool();
    const float one_by_count =
        by_batch ? 1 / static_cast<float>(shape.samples * shape.pixels) : 0.0F;
    for (int64_t i = 0; i < shape.channels(); ++i) {
      const float slope = data(sum_gz)[i] * data(inverse)[i];
      data(dgamma)[i] = slope;
      data(of_z)[i] = -data(scale)[i] * data(inverse)[i] * slope * one_by_count;
      data(constant)[i] = -data(scale)[i] * data(sum_g)[i] * one_by_count;
    }
    const Tensor dz = at::empty_like(z);
    kernels::batch_norm<float>().input_gradient(
        shape, data(g), data(mask), data(z), {data(mean), data(scale), data(of_z), data(constant)},
        data(dz));

    const auto [dx, dweight] = convolution_gradients(*context, x, weight, dz);
    return {dx, dweight, dgamma, sum_g, residual_needs_gradient ? g : Tensor(), Tensor()};
  }
};

// Parameters and buffers may have been replaced.
bool fits(const torch::nn::BatchNorm2dImpl& bn) {
  const auto is_vector = [&](const Tensor& of_channels) {
    return of_channels.defined() && is_plain_float(of_channels) && of_channels.is_contiguous() &&
           of_channels.dim() == 1 && of_channels.size(0) == bn.options.num_features();
  };
  const bool tracks = bn.options.track_running_stats();
  return bn.options.affine() && is_vector(bn.weight) && is_vector(bn.bias) &&
         (tracks ? is_vector(bn.running_mean) && is_vector(bn.running_var) : bn.is_training());
}

// Whether it can be added pixel by pixel; otherwise LibTorch broadcasts it or throws.
bool fits(const Tensor& residual, const kernels::ConvShape& shape) {
  if (!residual.defined()) return true;
  const int64_t blocks = shape.out_channels / kernels::kLanes;
  const std::vector<int64_t> blocked_sizes = {shape.samples, blocks, shape.out_height(),
                                              shape.out_width(), kernels::kLanes};
  const std::vector<int64_t> plain_sizes = {shape.samples, shape.out_channels, shape.out_height(),
                                            shape.out_width()};
  return is_plain_float(residual) &&
         residual.sizes() == (is_blocked(residual) ? blocked_sizes : plain_sizes);
}

// Counts the batch and returns the momentum of the running statistics.
Norm norm_of(torch::nn::BatchNorm2dImpl& bn) {
  const bool tracks = bn.is_training() && bn.options.track_running_stats();
  double momentum = bn.options.momentum().value_or(0.0);
  if (tracks && bn.num_batches_tracked.defined()) {
    bn.num_batches_tracked += 1;
    if (!bn.options.momentum()) momentum = 1 / bn.num_batches_tracked.item<double>();
  }
  return {.by_batch = bn.is_training(),
          .updates_running = tracks,
          .epsilon = bn.options.eps(),
          .momentum = momentum,
          .running_mean = bn.running_mean,
          .running_variance = bn.running_var};
}

void require_several_values(const kernels::ConvShape& shape) {
  if (shape.samples * shape.out_height() * shape.out_width() > 1) return;
  throw BadInput(
      "BatchNorm: a shard of one sample with 1 x 1 pixels has no variance; use more samples per "
      "shard or larger images");
}

}  // namespace

ConvBn::ConvBn(torch::nn::Conv2d conv, torch::nn::BatchNorm2d bn, Activation activation,
               Kernels kernels)
    : conv_(std::move(conv)),
      bn_(std::move(bn)),
      activation_(activation),
      layer_(std::make_shared<Layer>(kernels)) {
  if (conv_->bias.defined())
    throw BadInput(
        "ConvBn: the convolution has a bias, which BatchNorm would cancel; pass "
        "Conv2dOptions(...).bias(false)");
  if (bn_->options.num_features() != conv_->options.out_channels())
    throw BadInput("ConvBn: the convolution has {} channels, BatchNorm {}",
                   conv_->options.out_channels(), bn_->options.num_features());
}

torch::Tensor ConvBn::operator()(const torch::Tensor& x, const torch::Tensor& residual) {
  const std::optional<Input> input = layer_->accept(*conv_, x);
  if (!input || !fits(*bn_) || !fits(residual, layer_->shape_for(*conv_, *input))) {
    torch::Tensor y = bn_(conv_(plain(x)));
    if (residual.defined()) y = y.add_(plain(residual));
    return activation_ == Activation::relu ? y.relu_() : y;
  }
  const auto convolution = layer_->prepare(*conv_, *input);
  if (bn_->is_training()) require_several_values(convolution->shape());
  const LayerCall call = {
      c10::make_intrusive<Kept>(layer_, convolution),
      activation_ == Activation::relu ? kernels::Rectify::yes : kernels::Rectify::no,
      norm_of(*bn_)};
  return ConvBnFunction::apply(
      input->x, conv_->weight, bn_->weight, bn_->bias,
      residual.defined() ? torch::optional<Tensor>(blocked(residual)) : torch::nullopt, call);
}

std::string ConvBn::served_by() const {
  return layer_->served_by();
}

ConvBnReluImpl::ConvBnReluImpl(const torch::nn::Conv2dOptions& options)
    : conv(register_module("conv",
                           torch::nn::Conv2d(torch::nn::Conv2dOptions(options).bias(false)))),
      bn(register_module("bn", torch::nn::BatchNorm2d(options.out_channels()))),
      fused_(conv, bn) {}

torch::Tensor ConvBnReluImpl::forward(const torch::Tensor& x, const torch::Tensor& residual) {
  return fused_(x, residual);
}

}  // namespace lockstep::nn
