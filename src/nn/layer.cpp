#include "nn/layer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cstring>

#include "kernels/cpu.h"
#include "kernels/lanes.h"
#include "lockstep/error.h"

namespace lockstep::nn {

using kernels::ImageLayout;
using kernels::kLanes;

namespace {

constexpr size_t kMostCompared = 128 * 128 * 9;
constexpr size_t kMostKept = 8;  ///< prepared convolutions of a layer

bool same(const torch::ExpandingArray<2>& pair) {
  return pair->at(0) == pair->at(1);
}

// Options that the kernels support. (LibTorch 1 has variants of its own, LibTorch 2 the standard
// library's: what reads them is found by their type.)
bool plain_options(const torch::nn::Conv2dImpl& conv) {
  const auto& options = conv.options;
  const auto* padding = get_if<torch::ExpandingArray<2>>(&options.padding());
  return padding != nullptr && same(*padding) && (*padding)->at(0) >= 0 && same(options.stride()) &&
         options.stride()->at(0) >= 1 && same(options.kernel_size()) &&
         options.dilation()->at(0) == 1 && options.dilation()->at(1) == 1 &&
         options.groups() == 1 &&
         holds_alternative<torch::enumtype::kZeros>(options.padding_mode());
}

// Parameters may have been replaced.
bool weight_fits(const torch::nn::Conv2dImpl& conv) {
  const auto& options = conv.options;
  const std::vector<int64_t> sizes = {options.out_channels(), options.in_channels(),
                                      options.kernel_size()->at(0), options.kernel_size()->at(1)};
  const bool bias_fits =
      !conv.bias.defined() || (is_plain_float(conv.bias) && conv.bias.dim() == 1 &&
                               conv.bias.size(0) == options.out_channels());
  return is_plain_float(conv.weight) && conv.weight.is_contiguous() &&
         conv.weight.sizes() == sizes && bias_fits;
}

// Its gradient is contiguous: LibTorch's BatchNorm (1.13) computes wrong gradients where one sample
// of 8 channels has the strides of channels_last, but for that of the sample itself.
class BlockedFunction : public torch::autograd::Function<BlockedFunction> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x) {
    return x.reshape({x.size(0), x.size(1) / kLanes, kLanes, x.size(2), x.size(3)})
        .permute({0, 1, 3, 4, 2})
        .contiguous();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {plain(gradients[0])};
  }
};

constexpr const char* kConvolution = "convolution";
constexpr const char* kInputNeedsGradient = "x_needs_gradient";

// Memory for one call of a convolution.
torch::Tensor scratch_for(const kernels::Convolution& convolution) {
  const MemoryScope scope(MemoryUse::workspace);
  return at::empty({convolution.scratch_bytes()}, torch::kUInt8);
}

std::byte* bytes_of(const torch::Tensor& scratch) {
  return reinterpret_cast<std::byte*>(scratch.data_ptr<uint8_t>());
}

}  // namespace

bool is_blocked(const torch::Tensor& x) {
  return x.dim() == 5 && x.size(4) == kLanes;
}

torch::Tensor plain(const torch::Tensor& x) {
  if (!is_blocked(x)) return x;
  return x.permute({0, 1, 4, 2, 3})
      .reshape({x.size(0), x.size(1) * kLanes, x.size(2), x.size(3)})
      .contiguous();
}

torch::Tensor blocked(const torch::Tensor& x) {
  return is_blocked(x) ? x.contiguous() : BlockedFunction::apply(x);
}

kernels::ConvShape Layer::shape_for(const torch::nn::Conv2dImpl& conv, const Input& input) {
  const torch::Tensor& x = input.x;
  return {.samples = x.size(0),
          .in_channels = conv.options.in_channels(),
          .in_height = x.size(2),
          .in_width = x.size(3),
          .out_channels = conv.options.out_channels(),
          .kernel = conv.weight.size(2),
          .stride = conv.options.stride()->at(0),
          .padding = get<torch::ExpandingArray<2>>(conv.options.padding())->at(0)};
}

std::optional<Input> Layer::accept(const torch::nn::Conv2dImpl& conv, const torch::Tensor& x) {
  served_by_ = "torch";
  if (kernels_ == Kernels::torch || !kernels::supported() || !is_plain_float(x) ||
      !plain_options(conv) || !weight_fits(conv) || x.numel() == 0)
    return std::nullopt;
  Input input;
  if (is_blocked(x)) {
    input = {x.contiguous(), ImageLayout::blocked};
  } else if (x.dim() == 4 && x.size(1) % kLanes == 0) {
    input = {blocked(x), ImageLayout::blocked};
  } else if (x.dim() == 4 && !(x.requires_grad() && torch::GradMode::is_enabled())) {
    input = {x.contiguous(), ImageLayout::plain};
  } else {
    return std::nullopt;
  }
  const int64_t channels = input.x.size(1) * (input.layout == ImageLayout::blocked ? kLanes : 1);
  if (channels != conv.options.in_channels() ||
      !kernels::serves(shape_for(conv, input), input.layout))
    return std::nullopt;
  return input;
}

std::shared_ptr<kernels::Convolution> Layer::prepare(const torch::nn::Conv2dImpl& conv,
                                                     const Input& input) {
  const kernels::ConvShape shape = shape_for(conv, input);
  const auto is_for_it = [&](const std::shared_ptr<PreparedConvolution>& entry) {
    return entry->layout == input.layout && entry->convolution.shape() == shape;
  };
  auto found = std::ranges::find_if(entries_, is_for_it);
  if (found == entries_.end()) {
    discard_unused();
    kernels::Convolution made(shape, input.layout);
    MemoryCharge kept(cpu_account(), made.kept_bytes(), MemoryUse::workspace);
    entries_.push_back(std::make_shared<PreparedConvolution>(
        PreparedConvolution{input.layout, std::move(made), std::move(kept)}));
    found = entries_.end() - 1;
  }
  kernels::Convolution& convolution = (*found)->convolution;
  notice_changed(conv.weight, convolution);
  served_by_ = to_string(convolution.method());
  return {*found, &convolution};
}

// One that a backward pass needs stays: it must be told when weights change.
void Layer::discard_unused() {
  const MemoryAccount* const account = cpu_account();
  const bool is_limited = account != nullptr && account->figures().limit > 0;
  if (is_limited || entries_.size() >= kMostKept)
    std::erase_if(entries_, [](const auto& entry) { return entry.use_count() == 1; });
}

// Compares values, because LibTorch's optimizers change weights without changing the tensor's
// version. Where weights are many or soon prepared, they are prepared in every call instead.
void Layer::notice_changed(const torch::Tensor& weight, kernels::Convolution& convolution) {
  if (convolution.method() != kernels::Method::winograd) return convolution.weights_changed();
  const auto* begin = weight.data_ptr<float>();
  const auto count = static_cast<size_t>(weight.numel());
  if (weights_.size() == count && std::memcmp(weights_.data(), begin, count * sizeof(float)) == 0)
    return;
  for (const auto& entry : entries_) entry->convolution.weights_changed();
  if (count <= kMostCompared) weights_.assign(begin, begin + count);
}

bool is_plain_float(const torch::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == torch::kFloat32 && !x.is_sparse() &&
         !x.is_mkldnn() && !x.is_neg();
}

// In a backward pass LibTorch enables gradients only if it is to be differentiated.
void require_no_second_derivative() {
  if (torch::GradMode::is_enabled())
    throw BadInput(
        "lockstep::nn: gradients of gradients (create_graph) are not supported; make the layer "
        "with Kernels::torch");
}

void keep(torch::autograd::AutogradContext& context, const c10::intrusive_ptr<Kept>& kept,
          const torch::Tensor& x) {
  context.saved_data[kConvolution] = c10::IValue::make_capsule(kept);
  context.saved_data[kInputNeedsGradient] = x.requires_grad();
}

kernels::Convolution& kept(torch::autograd::AutogradContext& context) {
  return *c10::static_intrusive_pointer_cast<Kept>(context.saved_data[kConvolution].toCapsule())
              ->convolution;
}

torch::Tensor convolve(kernels::Convolution& convolution, const torch::Tensor& weight,
                       const torch::Tensor& x) {
  const torch::Tensor z = empty_result(convolution.shape());
  convolution.forward(data(weight), data(x), data(z), bytes_of(scratch_for(convolution)));
  return z;
}

ConvolutionGradients convolution_gradients(torch::autograd::AutogradContext& context,
                                           const torch::Tensor& x,
                                           const torch::Tensor& saved_weight,
                                           const torch::Tensor& dz) {
  const auto kept_layer =
      c10::static_intrusive_pointer_cast<Kept>(context.saved_data[kConvolution].toCapsule());
  kernels::Convolution& convolution = *kept_layer->convolution;
  const torch::Tensor weight = saved_weight.contiguous();
  if (!is_plain_float(weight) || weight.numel() != convolution.shape().weight_count())
    throw BadInput(
        "a convolution's weights were replaced by a {} tensor of {} elements between its forward "
        "and backward pass: expected {} of float32 on the CPU",
        c10::toString(weight.scalar_type()), weight.numel(), convolution.shape().weight_count());
  // Another forward pass may have used other weights.
  kept_layer->layer->notice_changed(weight, convolution);
  const torch::Tensor scratch = scratch_for(convolution);
  ConvolutionGradients of = {.x = {}, .weight = at::empty_like(weight)};
  convolution.weight_gradient(data(x), data(dz), data(of.weight), bytes_of(scratch));
  if (context.saved_data[kInputNeedsGradient].toBool()) {
    of.x = at::empty_like(x);
    convolution.input_gradient(data(weight), data(dz), data(of.x), bytes_of(scratch));
  }
  return of;
}

torch::Tensor empty_result(const kernels::ConvShape& shape) {
  return at::empty(
      {shape.samples, shape.out_channels / kLanes, shape.out_height(), shape.out_width(), kLanes},
      torch::kFloat32);
}

}  // namespace lockstep::nn
