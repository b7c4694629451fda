// Autocast for virtual devices: a call of an operator in one of the lists below converts its
// tensors first. The lists are PyTorch's for GPUs.
#include "lockstep/autocast.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/error.h"
#include "virtual_devices/devices.h"
#include "virtual_devices/libtorch.h"

namespace lockstep {
namespace virtual_devices {
namespace {

constexpr std::string_view kInHalfPrecision[] = {"_convolution",
                                                 "conv1d",
                                                 "conv2d",
                                                 "conv3d",
                                                 "conv_tbc",
                                                 "conv_transpose1d",
                                                 "conv_transpose2d",
                                                 "conv_transpose3d",
                                                 "convolution",
                                                 "prelu",
                                                 "addmm",
                                                 "addmv",
                                                 "addr",
                                                 "matmul",
                                                 "einsum",
                                                 "mm",
                                                 "mv",
                                                 "linear",
                                                 "addbmm",
                                                 "baddbmm",
                                                 "bmm",
                                                 "chain_matmul",
                                                 "linalg_multi_dot",
                                                 "lstm_cell",
                                                 "gru_cell",
                                                 "rnn_tanh_cell",
                                                 "rnn_relu_cell",
                                                 "_thnn_fused_lstm_cell",
                                                 "_thnn_fused_gru_cell",
                                                 "scaled_dot_product_attention"};

constexpr std::string_view kInFloat32[] = {"acos",
                                           "asin",
                                           "cosh",
                                           "erfinv",
                                           "exp",
                                           "expm1",
                                           "log",
                                           "log10",
                                           "log2",
                                           "log1p",
                                           "reciprocal",
                                           "rsqrt",
                                           "sinh",
                                           "tan",
                                           "pow",
                                           "softplus",
                                           "layer_norm",
                                           "native_layer_norm",
                                           "group_norm",
                                           "norm",
                                           "nuclear_norm",
                                           "cosine_similarity",
                                           "poisson_nll_loss",
                                           "cosine_embedding_loss",
                                           "nll_loss",
                                           "nll_loss2d",
                                           "nll_loss_nd",
                                           "hinge_embedding_loss",
                                           "kl_div",
                                           "l1_loss",
                                           "smooth_l1_loss",
                                           "huber_loss",
                                           "mse_loss",
                                           "margin_ranking_loss",
                                           "multilabel_margin_loss",
                                           "soft_margin_loss",
                                           "triplet_margin_loss",
                                           "multi_margin_loss",
                                           "binary_cross_entropy_with_logits",
                                           "dist",
                                           "pdist",
                                           "cdist",
                                           "renorm",
                                           "logsumexp",
                                           "prod",
                                           "softmax",
                                           "log_softmax",
                                           "cumprod",
                                           "cumsum",
                                           "sum"};

constexpr std::string_view kInTheWidest[] = {
    "addcdiv",      "addcmul",   "atan2",     "bilinear",    "cross", "dot",
    "grid_sampler", "index_put", "tensordot", "scatter_add", "cat",   "stack"};

enum class Rule { half_precision, float32, widest };

bool may_cast(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kType &&
         at::isFloatingType(tensor.scalar_type()) && tensor.scalar_type() != at::kDouble;
}

// Parameters in half precision, for as long as an Autocast exists on this thread.
thread_local int scopes = 0;
thread_local std::unordered_map<const c10::TensorImpl*, std::pair<at::Tensor, at::Tensor>>
    converted;

at::Tensor cast(const at::Tensor& tensor, at::ScalarType type) {
  if (!may_cast(tensor) || tensor.scalar_type() == type) return tensor;
  // What is converted without history would have no gradient when it is used again.
  const bool keeps = scopes > 0 && at::GradMode::is_enabled() && type != at::kFloat &&
                     tensor.scalar_type() == at::kFloat && tensor.requires_grad() &&
                     tensor.is_leaf() && !tensor.is_view();
  if (!keeps) return tensor.to(type);
  auto& [original, kept] = converted[tensor.unsafeGetTensorImpl()];
  if (!kept.defined() || kept.scalar_type() != type) {
    original = tensor;
    kept = tensor.to(type);
  }
  return kept;
}

at::ScalarType half_precision_type() {
  return AutocastState(kType).type();
}

at::ScalarType widest_of(const c10::Stack& stack, size_t first) {
  at::ScalarType widest = half_precision_type();
  const auto note = [&](const at::Tensor& tensor) {
    if (may_cast(tensor)) widest = at::promote_types(widest, tensor.scalar_type());
  };
  for (size_t i = first; i < stack.size(); ++i) {
    if (stack[i].isTensor()) note(stack[i].toTensor());
    if (stack[i].isTensorList())
      for (const at::Tensor& tensor : stack[i].toTensorVector()) note(tensor);
  }
  return widest;
}

template <Rule rule>
void cast_and_call(const c10::OperatorHandle& op, c10::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard without(kAutocastKey);
  const size_t first = stack->size() - op.schema().arguments().size();
  at::ScalarType type = at::kFloat;
  if (rule == Rule::half_precision) type = half_precision_type();
  if (rule == Rule::widest) type = widest_of(*stack, first);
  for (size_t i = first; i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    if (value.isTensor()) {
      value = cast(value.toTensor(), type);
    } else if (value.isTensorList()) {
      std::vector<at::Tensor> tensors = value.toTensorVector();
      for (at::Tensor& tensor : tensors) tensor = cast(tensor, type);
      value = std::move(tensors);
    }
  }
  op.callBoxed(stack);
}

// Neither in place nor into given tensors.
bool only_returns(const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  return std::none_of(arguments.begin(), arguments.end(), [](const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  });
}

class AutocastRegistration {
 public:
  AutocastRegistration() {
    others_.fallback(torch::CppFunction::makeFallthrough());
    add<Rule::half_precision>(kInHalfPrecision);
    add<Rule::float32>(kInFloat32);
    add<Rule::widest>(kInTheWidest);
  }

 private:
  template <Rule rule, size_t count>
  void add(const std::string_view (&names)[count]) {
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
      const bool listed = std::any_of(std::begin(names), std::end(names), [&](auto each) {
        return name.name == std::string("aten::").append(each);
      });
      const auto op = listed ? dispatcher.findSchema(name) : c10::nullopt;
      if (op && only_returns(op->schema()))
        aten_.impl(c10::toString(name).c_str(),
                   torch::CppFunction::makeFromBoxedFunction<&cast_and_call<rule>>());
    }
  }

  torch::Library aten_{torch::Library::IMPL, "aten", kAutocastKey, __FILE__, __LINE__};
  torch::Library others_{torch::Library::IMPL, "_", kAutocastKey, __FILE__, __LINE__};
};

}  // namespace

void register_autocast() {
  static const auto& registration = *new AutocastRegistration();  // for as long as the process runs
  static_cast<void>(registration);
}

}  // namespace virtual_devices

using virtual_devices::AutocastState;

Autocast::Autocast(c10::DeviceType device, c10::ScalarType type)
    : device_(device),
      outer_enabled_(AutocastState(device).enabled()),
      outer_type_(AutocastState(device).type()) {
  if (type != at::kHalf && type != at::kBFloat16 && type != at::kFloat)
    throw BadInput("Autocast to {}: expected half, bfloat16, or float to switch it off",
                   c10::toString(type));
  AutocastState(device).require(type);
  AutocastState(device).set(type != at::kFloat, type == at::kFloat ? outer_type_ : type);
  ++virtual_devices::scopes;
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  AutocastState(device_).set(outer_enabled_, outer_type_);
  if (--virtual_devices::scopes == 0) virtual_devices::converted.clear();
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

}  // namespace lockstep
