#include "kernels/direct_convolution.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

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

size_t aligned(size_t bytes) {
  constexpr size_t kAlignment = 64;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Changes the layout of an image or of weights; nothing to do if both layouts are the same.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const dnnl::engine& engine, const memory::desc& from, const memory::desc& to)
      : from_(from), to_(to) {
    if (from != to) run_ = dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to));
  }

  const memory::desc& from() const { return from_; }
  const memory::desc& to() const { return to_; }
  bool needed() const { return static_cast<bool>(run_); }

  void operator()(dnnl::stream& stream, memory from, memory to) const {
    run_.execute(stream, from, to);
  }

 private:
  memory::desc from_;
  memory::desc to_;
  dnnl::reorder run_;
};

// One of a convolution's passes: from two operands to a result, each with the number by which
// oneDNN knows it. What it reads and writes in a layout of oneDNN's is reordered in scratch memory.
class Pass {
 public:
  struct Operand {
    int argument;
    Reorder reorder;
  };

  Pass() = default;
  Pass(dnnl::primitive run, const memory::desc& scratchpad, std::array<Operand, 2> operands,
       Operand result)
      : run_(std::move(run)),
        scratchpad_(scratchpad),
        operands_(std::move(operands)),
        result_(std::move(result)) {}

  int64_t scratch_bytes() const {
    size_t bytes = aligned(scratchpad_.get_size());
    for (const Operand& operand : operands_)
      if (operand.reorder.needed()) bytes += aligned(operand.reorder.to().get_size());
    if (result_.reorder.needed()) bytes += aligned(result_.reorder.from().get_size());
    return static_cast<int64_t>(bytes);
  }

  void operator()(const dnnl::engine& engine, dnnl::stream& stream,
                  std::array<const float*, 2> operands, float* result, std::byte* scratch) const {
    const auto take = [&](const memory::desc& description) {
      std::byte* const taken = scratch;
      scratch += aligned(description.get_size());
      return memory(description, engine, taken);
    };
    std::unordered_map<int, memory> arguments = {{DNNL_ARG_SCRATCHPAD, take(scratchpad_)}};
    for (size_t i = 0; i < operands.size(); ++i) {
      const Reorder& reorder = operands_[i].reorder;
      memory operand = view(reorder.from(), engine, operands[i]);
      if (reorder.needed()) {
        const memory reordered = take(reorder.to());
        reorder(stream, operand, reordered);
        operand = reordered;
      }
      arguments.emplace(operands_[i].argument, operand);
    }
    const Reorder& reorder = result_.reorder;
    const memory ours = view(reorder.to(), engine, result);
    const memory theirs = reorder.needed() ? take(reorder.from()) : ours;
    arguments.emplace(result_.argument, theirs);
    run_.execute(stream, arguments);
    if (reorder.needed()) reorder(stream, theirs, ours);
  }

 private:
  dnnl::primitive run_;
  memory::desc scratchpad_;
  std::array<Operand, 2> operands_;
  Operand result_;
};

// Weights in the order a pass wants.
struct PreparedWeights {
  Reorder reorder;
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
  Primitives(const ConvShape& s, ImageLayout input, Reordering reordering) {
    const memory::dims strides{s.stride, s.stride}, padding{s.padding, s.padding};
    const memory::dims x_sizes{s.samples, s.in_channels, s.in_height, s.in_width};
    const memory::dims y_sizes{s.samples, s.out_channels, s.out_height(), s.out_width()};
    const memory::dims sizes{s.out_channels, s.in_channels, s.kernel, s.kernel};
    const bool plain = input == ImageLayout::plain;
    const memory::desc x = describe(x_sizes, plain ? Tag::nchw : Tag::nChw8c);
    const memory::desc y = describe(y_sizes, Tag::nChw8c);
    const memory::desc weights = describe(sizes, Tag::oihw);
    const bool reorders = reordering == Reordering::images;
    const memory::desc any_x = reorders && !plain ? describe(x_sizes, Tag::any) : x;
    const memory::desc any_y = reorders ? describe(y_sizes, Tag::any) : y;
    const memory::desc any_weights = describe(sizes, Tag::any);

    const Forward::primitive_desc of_forward =
        forward_convolution(engine, any_x, any_weights, any_y, strides, padding, padding);
    const memory::desc forward_weights = of_forward.weights_desc();
    forward = Pass(Forward(of_forward), of_forward.scratchpad_desc(),
                   {{{DNNL_ARG_SRC, {engine, x, of_forward.src_desc()}},
                     {DNNL_ARG_WEIGHTS, {engine, forward_weights, forward_weights}}}},
                   {DNNL_ARG_DST, {engine, of_forward.dst_desc(), y}});
    for_forward = prepared(weights, forward_weights);

    const auto of_weights = backward_convolution<BackwardWeights>(
        engine, of_forward, any_x, any_weights, any_y, strides, padding, padding);
    weight_gradient =
        Pass(BackwardWeights(of_weights), of_weights.scratchpad_desc(),
             {{{DNNL_ARG_SRC, {engine, x, of_weights.src_desc()}},
               {DNNL_ARG_DIFF_DST, {engine, y, of_weights.diff_dst_desc()}}}},
             {DNNL_ARG_DIFF_WEIGHTS, {engine, of_weights.diff_weights_desc(), weights}});
    implementations = {of_forward.impl_info_str(), "", of_weights.impl_info_str()};
    if (plain) return;

    const auto of_data = backward_convolution<BackwardData>(engine, of_forward, any_x, any_weights,
                                                            any_y, strides, padding, padding);
    const memory::desc data_weights = of_data.weights_desc();
    input_gradient = Pass(BackwardData(of_data), of_data.scratchpad_desc(),
                          {{{DNNL_ARG_DIFF_DST, {engine, y, of_data.diff_dst_desc()}},
                            {DNNL_ARG_WEIGHTS, {engine, data_weights, data_weights}}}},
                          {DNNL_ARG_DIFF_SRC, {engine, of_data.diff_src_desc(), x}});
    for_data = prepared(weights, data_weights);
    implementations.input_gradient = of_data.impl_info_str();
  }

  PreparedWeights prepared(const memory::desc& from, const memory::desc& to) const {
    return {{engine, from, to}, from == to ? memory() : memory(to, engine)};
  }

  /// The weights for a pass.
  const float* prepare(const float* weights, PreparedWeights& prepared) {
    if (!prepared.reorder.needed()) return weights;
    if (!prepared.fresh)
      prepared.reorder(stream, view(prepared.reorder.from(), engine, weights), prepared.weights);
    prepared.fresh = true;
    return static_cast<const float*>(prepared.weights.get_data_handle());
  }

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  mutable dnnl::stream stream{engine};
  Pass forward;
  Pass input_gradient;  ///< of blocked inputs
  Pass weight_gradient;
  PreparedWeights for_forward;
  PreparedWeights for_data;
  Implementations implementations;
};

DirectConvolution::DirectConvolution(const ConvShape& shape, ImageLayout input,
                                     Reordering reordering)
    : primitives_(std::make_unique<Primitives>(shape, input, reordering)) {}
DirectConvolution::~DirectConvolution() = default;
DirectConvolution::DirectConvolution(DirectConvolution&&) noexcept = default;
DirectConvolution& DirectConvolution::operator=(DirectConvolution&&) noexcept = default;

int64_t DirectConvolution::scratch_bytes() const {
  const Primitives& p = *primitives_;
  return std::max({p.forward.scratch_bytes(), p.input_gradient.scratch_bytes(),
                   p.weight_gradient.scratch_bytes()});
}

Implementations DirectConvolution::implementations() const {
  return primitives_->implementations;
}

void DirectConvolution::weights_changed() {
  primitives_->for_forward.fresh = false;
  primitives_->for_data.fresh = false;
}

void DirectConvolution::forward(const float* weights, const float* x, float* y,
                                std::byte* scratch) {
  Primitives& p = *primitives_;
  p.forward(p.engine, p.stream, {x, p.prepare(weights, p.for_forward)}, y, scratch);
}

void DirectConvolution::input_gradient(const float* weights, const float* dy, float* dx,
                                       std::byte* scratch) {
  Primitives& p = *primitives_;
  p.input_gradient(p.engine, p.stream, {dy, p.prepare(weights, p.for_data)}, dx, scratch);
}

void DirectConvolution::weight_gradient(const float* x, const float* dy, float* weights,
                                        std::byte* scratch) const {
  const Primitives& p = *primitives_;
  p.weight_gradient(p.engine, p.stream, {x, dy}, weights, scratch);
}

}  // namespace lockstep::kernels
