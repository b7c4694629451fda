// An operator's *arguments* are replaced by aliases on the CPU, its CPU kernel is called, and its
// *results* become tensors of the device: an argument that it returns is that argument again, a
// view of an argument shares the argument's storage, and anything else is new memory, which is
// adopted as it is. Nothing is copied.
//
// On asynchronous devices a call returns before its kernel has run, if its results' shapes are
// known from an earlier call with arguments of the same shapes; else it waits for the kernel. The
// results are *promised*: their storages get their memory when the kernel has run, in the device's
// stream.
#include "virtual_devices/cpu_call.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/error.h"
#include "virtual_devices/argument_tensors.h"
#include "virtual_devices/compute.h"
#include "virtual_devices/counting_allocator.h"
#include "virtual_devices/devices.h"
#include "virtual_devices/learned_results.h"
#include "virtual_devices/memory.h"
#include "virtual_devices/queued_call.h"
#include "virtual_devices/streams.h"

namespace lockstep::virtual_devices {
namespace {

bool is_virtual(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kType;
}

// Indices and lengths may be on the host, as with other devices.
bool takes_host_tensors(const std::string& op) {
  constexpr std::string_view kSuch[] = {"aten::index",         "aten::index_put",
                                        "aten::index_put_",    "aten::_index_put_impl_",
                                        "aten::_unsafe_index", "aten::_unsafe_index_put",
                                        "aten::_ctc_loss",     "aten::_ctc_loss_backward"};
  return std::any_of(std::begin(kSuch), std::end(kSuch),
                     [&](std::string_view name) { return op == name; });
}

class CpuCall {
 public:
  CpuCall(const c10::OperatorHandle& op, c10::Stack& stack)
      : op_(op),
        schema_(op.schema()),
        stack_(stack),
        first_(stack.size() - schema_.arguments().size()) {}

  void run() {
    for (size_t i = 0; i < schema_.arguments().size(); ++i) note_devices(i);
    require_one_device();
    for (size_t i = 0; i < schema_.arguments().size(); ++i) to_cpu(i);
    if (!Devices::get().asynchronous() || only_makes_views(schema_)) return run_here();
    const std::string key = LearnedResults::get().key_of(op_, stack_, first_, pairs_);
    const auto expected = key.empty() ? nullptr : LearnedResults::get().find(key);
    if (expected)
      start_call(op_, stack_, pairs_, index_, expected);
    else
      wait_and_learn(key);
  }

 private:
  /// Where an argument is.
  struct Place {
    size_t argument;
    c10::Device device;
  };

  void note_devices(size_t argument) {
    const c10::IValue& value = stack_[first_ + argument];
    if (value.isDevice() && value.toDevice().type() == kType)
      note_virtual({argument, value.toDevice()});
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (is_virtual(tensor))
        note_virtual({argument, tensor.device()});
      else if (tensor.defined() && (tensor.dim() > 0 || is_written(argument)) && !elsewhere_)
        elsewhere_ = {argument, tensor.device()};
    });
  }

  bool is_written(size_t argument) const {
    const c10::AliasInfo* const alias_info = schema_.arguments()[argument].alias_info();
    return alias_info != nullptr && alias_info->isWrite();
  }

  void note_virtual(const Place& place) {
    if (!device_)
      device_ = place;
    else if (device_->device != place.device)
      refuse(*device_, place);
  }

  void require_one_device() {
    if (device_ && elsewhere_ &&
        (!takes_host_tensors(schema_.name()) || elsewhere_->argument == 0 ||
         is_written(elsewhere_->argument)))
      refuse(*device_, *elsewhere_);
    index_ = device_ ? device_->device.index() : c10::DeviceIndex{0};
    Devices::get().require(index_);
  }

  [[noreturn]] void refuse(const Place& one, const Place& other) const {
    throw BadInput(
        "{}: tensors on different devices: '{}' is on {}, but '{}' is on {}; move one of them, by "
        ".to(device)",
        schema_.name(), schema_.arguments()[one.argument].name(), name_of(one.device),
        schema_.arguments()[other.argument].name(), name_of(other.device));
  }

  at::Tensor alias(const at::Tensor& tensor, bool written) {
    if (!is_virtual(tensor)) return tensor;
    for (Pair& pair : pairs_)
      if (pair.on_device.is_same(tensor)) {
        pair.written = pair.written || written;
        return pair.alias;
      }
    pairs_.push_back({tensor, alias_of(tensor), written});
    return pairs_.back().alias;
  }

  void to_cpu(size_t argument) {
    c10::IValue& value = stack_[first_ + argument];
    const bool written = is_written(argument);
    change_tensors(value, [&](const at::Tensor& tensor) { return alias(tensor, written); });
    if (value.isDevice() && value.toDevice().type() == kType) value = c10::Device(c10::kCPU);
  }

  void run_here() {
    {
      const ComputingOn device(&Devices::get().account(index_));
      compute(op_, stack_);
    }
    take_results();
  }

  void wait_and_learn(const std::string& key) {
    int64_t most_bytes = 0;
    const auto task = [&] {
      ComputingOn device(&Devices::get().account(index_));
      const at::AutoGradMode grad_mode(grad_mode_);
      for (const Pair& pair : pairs_) require_computed(pair.alias, schema_.name());
      compute(op_, stack_);
      most_bytes = device.most();
    };
    using Wait = device::StreamSet::Wait;
    run_task(index_, schema_.name(), uses_of(pairs_), task,
             tells_the_host_values(op_) ? Wait::of_program : Wait::internal);
    if (!key.empty()) LearnedResults::get().learn(key, op_, stack_, pairs_, most_bytes);
    take_results();
  }

  void take_results() {
    take_writes();
    for (size_t i = stack_.size() - schema_.returns().size(); i < stack_.size(); ++i)
      change_tensors(stack_[i], [this](const at::Tensor& result) { return on_device(result); });
  }

  void take_writes() const {
    for (const Pair& pair : pairs_)
      if (pair.written) take_changes(pair.on_device, pair.alias);
  }

  at::Tensor on_device(const at::Tensor& result) {
    if (!result.device().is_cpu()) return result;
    for (const Pair& pair : pairs_)
      if (pair.alias.is_same(result)) return pair.on_device;
    const auto shares_storage = [&](const Pair& pair) {
      return pair.alias.storage().unsafeGetStorageImpl() == result.storage().unsafeGetStorageImpl();
    };
    for (const Pairs* const pairs : {&pairs_, &fresh_})
      for (const Pair& pair : *pairs)
        if (shares_storage(pair)) return view_like(pair.on_device, result);
    fresh_.push_back({adopt(result, index_), result});
    return fresh_.back().on_device;
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  c10::Stack& stack_;
  const size_t first_;              ///< of the arguments on the stack
  std::optional<Place> device_;     ///< the first argument on a virtual device
  std::optional<Place> elsewhere_;  ///< the first other tensor that is not a single number
  c10::DeviceIndex index_ = 0;      ///< of the device that computes
  Pairs pairs_;
  Pairs fresh_;  ///< results in memory of their own, of which others may be views
  const bool grad_mode_ = at::GradMode::is_enabled();
};

}  // namespace

void call_cpu_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/,
                     c10::Stack* stack) {
  CpuCall(op, *stack).run();
}

}  // namespace lockstep::virtual_devices
