#include "kernels/direct_convolution.h"

#include <algorithm>

#include "kernels/onednn.h"

namespace lockstep::kernels {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

memory::desc describe(const memory::dims& sizes, Tag tag) {
  return {sizes, memory::data_type::f32, tag};
}

// oneDNN takes no pointers to constants, not even for what it only reads.
memory view(const memory::desc& description, const dnnl::engine& engine, const float* data) {
  return {description, engine, const_cast<float*>(data)};
}

// Weights in the order a primitive wants.
struct Reordered {
  memory weights;
  bool fresh = false;
};

}  // namespace

bool is_reference(const std::string& implementation) {
  return implementation.rfind("ref", 0) == 0 || implementation.find(":ref") != std::string::npos;
}

bool direct_convolution_may_use_avx512() {
  constexpr auto kAvx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kAvx512) == kAvx512;
}

struct DirectConvolution::Primitives {
  Primitives(const ConvShape& s, ImageLayout input)
      : strides{s.stride, s.stride},
        padding{s.padding, s.padding},
        x(describe({s.samples, s.in_channels, s.in_height, s.in_width},
                   input == ImageLayout::plain ? Tag::nchw : Tag::nChw8c)),
        y(describe({s.samples, s.out_channels, s.out_height(), s.out_width()}, Tag::nChw8c)),
        any_weights(describe({s.out_channels, s.in_channels, s.kernel, s.kernel}, Tag::any)),
        plain_weights(describe({s.out_channels, s.in_channels, s.kernel, s.kernel}, Tag::oihw)),
        forward(forward_convolution(engine, x, any_weights, y, strides, padding, padding)),
        run_forward(forward),
        for_forward{memory(forward.weights_desc(), engine)} {
    if (input == ImageLayout::plain) return;
    backward_weights = backward_convolution<BackwardWeights>(engine, forward, x, any_weights, y,
                                                             strides, padding, padding);
    run_backward_weights = BackwardWeights(backward_weights);
    backward_data = backward_convolution<BackwardData>(engine, forward, x, any_weights, y, strides,
                                                       padding, padding);
    run_backward_data = BackwardData(backward_data);
    for_data.weights = memory(backward_data.weights_desc(), engine);
  }

  void reorder(const float* weights, Reordered& reordered) const {
    if (reordered.fresh) return;
    memory plain = view(plain_weights, engine, weights);
    dnnl::reorder(plain, reordered.weights).execute(stream, plain, reordered.weights);
    reordered.fresh = true;
  }

  int64_t result_bytes() const {
    return static_cast<int64_t>(backward_weights.diff_weights_desc().get_size());
  }

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  mutable dnnl::stream stream{engine};
  memory::dims strides;
  memory::dims padding;
  memory::desc x;
  memory::desc y;
  memory::desc any_weights;
  memory::desc plain_weights;
  Forward::primitive_desc forward;
  BackwardWeights::primitive_desc backward_weights;
  BackwardData::primitive_desc backward_data;
  Forward run_forward;
  BackwardWeights run_backward_weights;
  BackwardData run_backward_data;
  Reordered for_forward;
  Reordered for_data;
};

DirectConvolution::DirectConvolution(const ConvShape& shape, ImageLayout input)
    : primitives_(std::make_unique<Primitives>(shape, input)) {}
DirectConvolution::~DirectConvolution() = default;
DirectConvolution::DirectConvolution(DirectConvolution&&) noexcept = default;
DirectConvolution& DirectConvolution::operator=(DirectConvolution&&) noexcept = default;

int64_t DirectConvolution::scratch_bytes() const {
  const Primitives& p = *primitives_;
  size_t most = p.forward.scratchpad_desc().get_size();
  if (!p.backward_data) return static_cast<int64_t>(most);
  most = std::max(most, p.backward_data.scratchpad_desc().get_size());
  most = std::max(most, p.backward_weights.scratchpad_desc().get_size());
  return static_cast<int64_t>(most) + p.result_bytes();
}

std::vector<std::string> DirectConvolution::implementations() const {
  const Primitives& p = *primitives_;
  if (!p.backward_data) return {p.forward.impl_info_str()};
  return {p.forward.impl_info_str(), p.backward_data.impl_info_str(),
          p.backward_weights.impl_info_str()};
}

void DirectConvolution::weights_changed() {
  primitives_->for_forward.fresh = false;
  primitives_->for_data.fresh = false;
}

void DirectConvolution::forward(const float* weights, const float* x, float* y,
                                std::byte* scratch) {
  Primitives& p = *primitives_;
  p.reorder(weights, p.for_forward);
  p.run_forward.execute(p.stream,
                        {{DNNL_ARG_SRC, view(p.x, p.engine, x)},
                         {DNNL_ARG_WEIGHTS, p.for_forward.weights},
                         {DNNL_ARG_DST, view(p.y, p.engine, y)},
                         {DNNL_ARG_SCRATCHPAD, {p.forward.scratchpad_desc(), p.engine, scratch}}});
}

void DirectConvolution::input_gradient(const float* weights, const float* dy, float* dx,
                                       std::byte* scratch) {
  Primitives& p = *primitives_;
  p.reorder(weights, p.for_data);
  p.run_backward_data.execute(
      p.stream, {{DNNL_ARG_DIFF_DST, view(p.y, p.engine, dy)},
                 {DNNL_ARG_WEIGHTS, p.for_data.weights},
                 {DNNL_ARG_DIFF_SRC, view(p.x, p.engine, dx)},
                 {DNNL_ARG_SCRATCHPAD, {p.backward_data.scratchpad_desc(), p.engine, scratch}}});
}

void DirectConvolution::weight_gradient(const float* x, const float* dy, float* weights,
                                        std::byte* scratch) const {
  const Primitives& p = *primitives_;
  memory result(p.backward_weights.diff_weights_desc(), p.engine, scratch);
  p.run_backward_weights.execute(
      p.stream, {{DNNL_ARG_SRC, view(p.x, p.engine, x)},
                 {DNNL_ARG_DIFF_DST, view(p.y, p.engine, dy)},
                 {DNNL_ARG_DIFF_WEIGHTS, result},
                 {DNNL_ARG_SCRATCHPAD,
                  {p.backward_weights.scratchpad_desc(), p.engine, scratch + p.result_bytes()}}});
  memory plain = view(p.plain_weights, p.engine, weights);
  dnnl::reorder(result, plain).execute(p.stream, result, plain);
}

}  // namespace lockstep::kernels
