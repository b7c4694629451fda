#include <ATen/core/Tensor.h>

#include <string>
#include <utility>

#include "lockstep/error.h"
#include "virtual_devices/counting_allocator.h"
#include "virtual_devices/devices.h"
#include "virtual_devices/memory.h"
#include "virtual_devices/streams.h"

namespace lockstep {

void launch_kernel(const std::vector<at::Tensor>& tensors,
                   const std::function<void(const std::vector<at::Tensor>&)>& kernel) {
  if (tensors.empty()) throw BadInput("launch_kernel: no tensors, so that it has no device");
  const c10::Device device = tensors.front().device();
  if (device.type() != virtual_devices::kType)
    throw BadInput("launch_kernel: a tensor is on {}: expected a virtual device",
                   virtual_devices::name_of(device));
  std::vector<at::Tensor> aliases;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.device() != device)
      throw BadInput("launch_kernel: tensors on different devices: {} and {}",
                     virtual_devices::name_of(device), virtual_devices::name_of(tensor.device()));
    aliases.push_back(virtual_devices::alias_of(tensor));
  }
  virtual_devices::Devices& devices = virtual_devices::Devices::get();
  const auto compute = [&] {
    const virtual_devices::ComputingOn computing(&devices.account(device.index()));
    kernel(aliases);
  };
  if (!devices.asynchronous()) return compute();
  static const std::string& by = *new std::string("launch_kernel");
  std::vector<virtual_devices::Use> uses;
  for (const at::Tensor& tensor : tensors) uses.push_back({tensor, true});
  virtual_devices::run_task(device.index(), by, uses, compute);
}

void launch_host_function(c10::Device device, std::function<void()> function) {
  if (device.type() != virtual_devices::kType)
    throw BadInput("launch_host_function: {}: expected a virtual device",
                   virtual_devices::name_of(device));
  virtual_devices::Devices::get().require(device.index());
  if (!virtual_devices::Devices::get().asynchronous()) return function();
  static const std::string& by = *new std::string("launch_host_function");
  virtual_devices::start_task(device.index(), by, {}, std::move(function));
}

}  // namespace lockstep
