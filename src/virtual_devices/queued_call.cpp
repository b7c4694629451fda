// A *promised* result is a device tensor whose storage gets its memory when its kernel has run.
// A queued call owns everything that its kernel needs: the host may change or free the tensors that
// it was called with before that.
#include "virtual_devices/queued_call.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/error.h"
#include "virtual_devices/argument_tensors.h"
#include "virtual_devices/compute.h"
#include "virtual_devices/devices.h"

namespace lockstep::virtual_devices {
namespace {

using Kind = ExpectedTensor::Kind;

class QueuedCall {
 public:
  QueuedCall(const c10::OperatorHandle& op, c10::Stack arguments, const Pairs& pairs,
             std::shared_ptr<const ExpectedResults> expected, std::vector<c10::Storage> twins,
             c10::Device device)
      : op_(op),
        device_(device),
        stack_(std::move(arguments)),
        expected_(std::move(expected)),
        twins_(std::move(twins)) {
    for (const Pair& pair : pairs) aliases_.push_back({{}, pair.alias, pair.written});
  }

  void run() {
    std::vector<Shape> shapes;
    for (const Pair& pair : aliases_) {
      require_computed(pair.alias, op_.schema().name());
      shapes.push_back(Shape::of(pair.alias));
    }
    try {
      const at::AutoGradMode grad_mode(grad_mode_);
      compute(op_, stack_);
    } catch (c10::Error& error) {
      error.add_context(fmt::format("in {}, which {} computed after its call had returned",
                                    op_.schema().name(), name_of(device_)));
      throw;
    }
    require_expected(shapes);
    const size_t first = stack_.size() - expected_->results.size();
    std::vector<bool> kept(twins_.size());
    for (size_t i = 0; i < expected_->results.size(); ++i)
      keep_promises(expected_->results[i], stack_[first + i], kept);
  }

 private:
  void require_expected(const std::vector<Shape>& shapes) const {
    const auto actual = describe_results(op_, stack_, aliases_);
    bool same =
        actual && actual->results == expected_->results && actual->fresh == expected_->fresh;
    for (size_t i = 0; i < shapes.size(); ++i)
      same = same && Shape::of(aliases_[i].alias) == shapes[i];
    if (same) return;
    LearnedResults::get().never(op_);
    throw Error(
        fmt::format("{}: its results have other sizes than for arguments of the same sizes before; "
                    "from now on the host waits for this operator: repeat the computation",
                    op_.schema().name()));
  }

  // Several results may be in one storage, whose promise is then `kept` already.
  void keep_promises(const ExpectedResults::Result& expected, const c10::IValue& value,
                     std::vector<bool>& kept) const {
    const std::vector<at::Tensor> results =
        value.isTensor() ? std::vector<at::Tensor>{value.toTensor()} : value.toTensorVector();
    for (size_t i = 0; i < results.size(); ++i) {
      const ExpectedTensor& about = expected.tensors[i];
      if (about.kind != Kind::fresh || kept[about.number]) continue;
      keep_promise(twins_[about.number], results[i].storage());
      kept[about.number] = true;
    }
  }

  const c10::OperatorHandle op_;
  const c10::Device device_;
  c10::Stack stack_;
  Pairs aliases_;  ///< without the tensors on the device, which may be freed by the host
  const std::shared_ptr<const ExpectedResults> expected_;
  const std::vector<c10::Storage> twins_;  ///< of promised storages
  const bool grad_mode_ = at::GradMode::is_enabled();
};

// Storages that are counted from now on, as the call's workspace is for a moment.
std::vector<c10::Storage> promised_storages(const ExpectedResults& expected,
                                            c10::DeviceIndex index) {
  MemoryAccount& account = Devices::get().account(index);
  std::vector<c10::Storage> promised;
  for (const size_t bytes : expected.fresh) {
    const auto counted = static_cast<int64_t>(bytes);
    promised.push_back(promised_storage(
        bytes, MemoryCharge::of_counted(account, counted, account.take(counted)), index));
  }
  const MemoryCharge workspace(&account, expected.workspace, MemoryUse::workspace);
  return promised;
}

// Single numbers and indices may be on the host, which may change them.
void take_host_values(c10::IValue& argument, const Pairs& pairs) {
  change_tensors(argument, [&](const at::Tensor& tensor) {
    const bool on_device = std::any_of(
        pairs.begin(), pairs.end(), [&](const Pair& pair) { return pair.alias.is_same(tensor); });
    if (on_device) return tensor;
    at::Tensor copy = tensor.detach().clone();
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
      copy.unsafeGetTensorImpl()->set_wrapped_number(true);
    return copy;
  });
}

at::Tensor promised_tensor(const ExpectedTensor& expected, const Pairs& pairs,
                           const std::vector<c10::Storage>& promised) {
  switch (expected.kind) {
    case Kind::undefined:
      return {};
    case Kind::argument:
      return pairs[expected.number].on_device;
    case Kind::fresh:
      return on_device(expected.shape, promised[expected.number]);
    case Kind::view:
      break;
  }
  Shape shape = expected.shape;
  shape.offset += pairs[expected.number].alias.storage_offset();
  return on_device(shape, pairs[expected.number].on_device.storage());
}

}  // namespace

void require_computed(const at::Tensor& alias, const std::string& by) {
  const c10::Storage& twin = alias.storage();
  if (twin.nbytes() > 0 && twin.data_ptr().get() == nullptr)
    throw Error(fmt::format("{}: an argument was not computed, because of an earlier error", by));
}

std::vector<Use> uses_of(const Pairs& pairs) {
  std::vector<Use> uses;
  for (const Pair& pair : pairs) uses.push_back({pair.on_device, pair.written});
  return uses;
}

void start_call(const c10::OperatorHandle& op, c10::Stack& stack, const Pairs& pairs,
                c10::DeviceIndex index, const std::shared_ptr<const ExpectedResults>& expected) {
  const std::vector<c10::Storage> promised = promised_storages(*expected, index);
  std::vector<Use> uses = uses_of(pairs);
  c10::Stack results;
  for (const ExpectedResults::Result& result : expected->results) {
    std::vector<at::Tensor> tensors;
    for (const ExpectedTensor& each : result.tensors) {
      tensors.push_back(promised_tensor(each, pairs, promised));
      if (each.kind == Kind::fresh) uses.push_back({tensors.back(), true});
    }
    if (result.is_list)
      results.emplace_back(std::move(tensors));
    else
      results.emplace_back(std::move(tensors.front()));
  }
  std::vector<c10::Storage> twins;
  for (const c10::Storage& storage : promised)
    twins.push_back(static_cast<Block*>(storage.data_ptr().get_context())->twin);
  const auto first = stack.end() - static_cast<int64_t>(op.schema().arguments().size());
  c10::Stack arguments(std::make_move_iterator(first), std::make_move_iterator(stack.end()));
  stack.erase(first, stack.end());
  for (c10::IValue& argument : arguments) take_host_values(argument, pairs);
  auto call = std::make_shared<QueuedCall>(op, std::move(arguments), pairs, expected,
                                           std::move(twins), c10::Device(kType, index));
  start_task(index, op.schema().name(), uses, [call = std::move(call)] { call->run(); });
  for (c10::IValue& result : results) stack.push_back(std::move(result));
}

}  // namespace lockstep::virtual_devices
