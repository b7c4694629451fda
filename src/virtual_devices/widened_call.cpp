// LibTorch's kernels for CPUs know few operators of float16, and round after every addition. Here
// an operator computes in float32, and its *results* are rounded once. Which type a result has
// follows LibTorch's rules: that of the widest argument that is not a single number; statistics of
// normalizations stay float32.
#include "virtual_devices/widened_call.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/error.h"
#include "virtual_devices/argument_tensors.h"

namespace lockstep::virtual_devices {
namespace {

bool is_half(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16;
}

// They move or convert values, or depend on the limits of the type: LibTorch's own kernels do that.
bool needs_own_type(std::string_view op) {
  constexpr std::string_view kSuch[] = {
      "aten::copy_",        "aten::_to_copy",    "aten::clone",    "aten::fill_",
      "aten::zero_",        "aten::resize_",     "aten::random_",  "aten::_local_scalar_dense",
      "aten::nan_to_num",   "aten::nan_to_num_", "aten::uniform_", "aten::nextafter",
      "aten::masked_fill_", "aten::complex"};
  return std::ranges::find(kSuch, op) != std::end(kSuch);
}

bool is_normalization(std::string_view op) {
  return op.find("batch_norm") != op.npos || op.find("layer_norm") != op.npos ||
         op.find("group_norm") != op.npos;
}

class WidenedCall {
 public:
  WidenedCall(const c10::OperatorHandle& op, c10::Stack& stack)
      : op_(op), schema_(op.schema()), stack_(stack) {}

  void run() {
    const size_t first = stack_.size() - schema_.arguments().size();
    for (size_t i = 0; i < schema_.arguments().size(); ++i)
      widen(stack_[first + i], schema_.arguments()[i]);
    refuse_overlapping_writes();
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    for (const Widened& each : widened_)
      if (each.written) at::Tensor(each.narrow).resize_(each.wide.sizes()).copy_(each.wide);
    for (size_t i = stack_.size() - schema_.returns().size(); i < stack_.size(); ++i)
      narrow(stack_[i], i == stack_.size() - schema_.returns().size());
  }

 private:
  struct Widened {
    at::Tensor narrow, wide;
    bool written;
  };

  void widen(c10::IValue& value, const c10::Argument& argument) {
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (value.isInt() && argument.name().ends_with("dtype")) {
      asked_ = static_cast<at::ScalarType>(value.toInt());
      if (is_half(asked_)) value = static_cast<int64_t>(at::kFloat);
      return;
    }
    for_each_tensor(value, [&](const at::Tensor& tensor) { note_type(tensor); });
    change_tensors(value, [&](const at::Tensor& tensor) { return wide(tensor, written); });
  }

  // Each would be computed in memory of its own.
  void refuse_overlapping_writes() const {
    for (size_t i = 0; i < widened_.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (widened_[i].written && widened_[j].written &&
            at::get_overlap_status(widened_[i].narrow, widened_[j].narrow) !=
                at::MemOverlapStatus::No)
          throw BadInput(
              "{} writes two tensors in half precision that share memory: call it for one after "
              "the other",
              schema_.name());
  }

  void note_type(const at::Tensor& tensor) {
    const at::ScalarType type = tensor.scalar_type();
    if (!at::isFloatingType(type) || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
    at::ScalarType& widest = tensor.dim() > 0 ? widest_ : widest_number_;
    widest = widest == at::ScalarType::Undefined ? type : at::promote_types(widest, type);
    if (first_ == at::ScalarType::Undefined) first_ = type;
  }

  at::Tensor wide(const at::Tensor& tensor, bool written) {
    if (!is_half(tensor.scalar_type())) return tensor;
    for (Widened& each : widened_)
      if (each.narrow.is_same(tensor)) {
        each.written = each.written || written;
        return each.wide;
      }
    widened_.push_back({tensor, tensor.to(at::kFloat), written});
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
      widened_.back().wide.unsafeGetTensorImpl()->set_wrapped_number(true);
    return widened_.back().wide;
  }

  at::ScalarType result_type(bool is_first) const {
    if (asked_ != at::ScalarType::Undefined) return asked_;
    if (is_normalization(schema_.name())) return is_first ? first_ : widest_;
    return widest_ != at::ScalarType::Undefined ? widest_ : widest_number_;
  }

  void narrow(c10::IValue& value, bool is_first) const {
    const at::ScalarType type = result_type(is_first);
    change_tensors(value, [&](const at::Tensor& result) {
      for (const Widened& each : widened_)
        if (each.wide.is_same(result)) return each.narrow;
      const bool rounds = is_half(type) && result.scalar_type() == at::kFloat;
      return rounds ? result.to(type) : result;
    });
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  c10::Stack& stack_;
  std::vector<Widened> widened_;
  at::ScalarType asked_ = at::ScalarType::Undefined;   ///< by an argument
  at::ScalarType first_ = at::ScalarType::Undefined;   ///< of the first tensor of numbers
  at::ScalarType widest_ = at::ScalarType::Undefined;  ///< of tensors
  at::ScalarType widest_number_ = at::ScalarType::Undefined;
};

}  // namespace

bool has_half_precision(const c10::OperatorHandle& op, const c10::Stack& stack) {
  const size_t count = op.schema().arguments().size();
  bool found = false;
  for (size_t i = stack.size() - count; i < stack.size() && !found; ++i)
    for_each_tensor(stack[i], [&](const at::Tensor& tensor) {
      found = found || is_half(tensor.scalar_type());
    });
  return found && !needs_own_type(op.schema().name());
}

void compute_widened(const c10::OperatorHandle& op, c10::Stack& stack) {
  WidenedCall(op, stack).run();
}

}  // namespace lockstep::virtual_devices
