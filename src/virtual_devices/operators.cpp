// Which code computes an operator on virtual devices: the functions below; for all other operators
// that have a kernel for CPUs, that kernel. They are registered one by one, since LibTorch would
// otherwise compose some of them from others, with other bits and at other speeds. Operators that
// are composed on CPUs too are composed here in the same way.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "lockstep/error.h"
#include "virtual_devices/copies.h"
#include "virtual_devices/counting_allocator.h"
#include "virtual_devices/cpu_call.h"
#include "virtual_devices/devices.h"
#include "virtual_devices/libtorch.h"
#include "virtual_devices/memory.h"
#include "virtual_devices/pinned_memory.h"
#include "virtual_devices/recurrent_cells.h"

namespace lockstep::virtual_devices {
namespace {

c10::DeviceIndex index_of(c10::optional<c10::Device> device) {
  const c10::DeviceIndex index = device && device->has_index() ? device->index() : current_device();
  Devices::get().require(index);
  return index;
}

at::Tensor empty(at::IntArrayRef sizes, c10::optional<at::ScalarType> type,
                 c10::optional<at::Layout> layout, c10::optional<c10::Device> device,
                 c10::optional<bool> /*pinned*/, c10::optional<at::MemoryFormat> format) {
  const c10::DeviceIndex index = index_of(device);
  const ComputingOn computing(&Devices::get().account(index));
  return adopt(at::detail::empty_cpu(sizes, type, layout, c10::kCPU, false, format), index);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         c10::optional<at::ScalarType> type, c10::optional<at::Layout> layout,
                         c10::optional<c10::Device> device, c10::optional<bool> /*pinned*/) {
  const c10::DeviceIndex index = index_of(device);
  const ComputingOn computing(&Devices::get().account(index));
  return adopt(at::detail::empty_strided_cpu(sizes, strides, type, layout, c10::kCPU, false),
               index);
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  at::Tensor target = to;
  return copy(target, from, non_blocking);
}

at::Tensor pin_memory(const at::Tensor& tensor, c10::optional<c10::Device> /*device*/) {
  return pinned_copy(tensor);
}

bool is_pinned(const at::Tensor& tensor, c10::optional<c10::Device> /*device*/) {
  return is_in_pinned_memory(tensor);
}

at::Tensor& set_storage(at::Tensor& tensor, at::Storage source, int64_t offset,
                        at::IntArrayRef sizes, at::IntArrayRef strides) {
  if (source.device() != tensor.device())
    throw BadInput("aten::set_: the tensor is on {}, but the storage is on {}",
                   name_of(tensor.device()), name_of(source.device()));
  return at::native::set_storage_cpu_(tensor, std::move(source), offset, sizes, strides);
}

at::Tensor& set_all_of_storage(at::Tensor& tensor, at::Storage source) {
  const auto count = static_cast<int64_t>(source.nbytes() / tensor.dtype().itemsize());
  return set_storage(tensor, std::move(source), 0, {count}, {});
}

// Module::to sets a parameter's data to a tensor of another device.
bool may_take_data_of(const at::Tensor& tensor, const at::Tensor& from) {
  return tensor.layout() == at::kStrided && from.layout() == at::kStrided;
}

torch::CppFunction by_cpu_kernel() {
  return torch::CppFunction::makeFromBoxedFunction<&call_cpu_kernel>();
}

// LibTorch's own choice among its convolutions for CPUs.
constexpr const char* kConvolutions[] = {"aten::convolution", "aten::convolution_backward"};

class Registration {
 public:
  Registration() {
    register_own();
    register_cpu_kernels();
    register_recurrent_cells(aten_);
    for (const char* const name : kConvolutions) aten_.impl(name, by_cpu_kernel());
    others_.fallback(by_cpu_kernel());
    aten_.impl("_has_compatible_shallow_copy_type", may_take_data_of);
    aten_autograd_.impl("_has_compatible_shallow_copy_type", may_take_data_of);
    if (kPinsForCuda && !at::hasCUDA()) pin_by_default();
    if (kLacksAutogradFallback) autograd_.fallback(torch::CppFunction::makeFallthrough());
  }

 private:
  template <typename Function>
  void own(const char* name, Function* function) {
    aten_.impl(name, function);
    own_.insert(std::string("aten::") + name);
  }

  void register_own() {
    own("empty.memory_format", empty);
    own("empty_strided", empty_strided);
    own("copy_", copy);
    own("_copy_from", copy_from);
    own("_pin_memory", pin_memory);
    own("is_pinned", is_pinned);
    own("as_strided", at::native::as_strided_tensorimpl);
    own("view", static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(at::native::view));
    own("_reshape_alias", at::native::_reshape_alias);
    own("unfold", at::native::unfold);
    own("set_.source_Storage_storage_offset", set_storage);
    own("set_.source_Storage", set_all_of_storage);
    own("set_.source_Tensor", at::native::set_tensor_);
  }

  // pin_memory() without a device asks for CUDA's.
  void pin_by_default() {
    cuda_.emplace(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    cuda_->impl("_pin_memory", pin_memory);
    cuda_->impl("is_pinned", is_pinned);
  }

  void register_cpu_kernels() {
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
      const std::string text = c10::toString(name);
      if (!text.starts_with("aten::") || own_.contains(text)) continue;
      const auto op = dispatcher.findSchema(name);
      if (op && op->hasKernelForDispatchKey(c10::DispatchKey::CPU))
        aten_.impl(text.c_str(), by_cpu_kernel());
    }
  }

  std::set<std::string> own_;  ///< names
  std::optional<torch::Library> cuda_;
  torch::Library aten_{torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__};
  torch::Library others_{torch::Library::IMPL, "_", kKey, __FILE__, __LINE__};
  torch::Library aten_autograd_{torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1,
                                __FILE__, __LINE__};
  torch::Library autograd_{torch::Library::IMPL, "_", c10::DispatchKey::AutogradPrivateUse1,
                           __FILE__, __LINE__};
};

}  // namespace

void register_operators() {
  static const auto& registration = *new Registration();  // for as long as the process runs
  static_cast<void>(registration);
}

}  // namespace lockstep::virtual_devices
