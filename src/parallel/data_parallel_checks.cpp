#include "parallel/data_parallel_checks.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <exception>

#include "lockstep/error.h"
#include "parallel/flat_state.h"
#include "parallel/tensor_buffer.h"
#include "virtual_devices/devices.h"

namespace lockstep::parallel {
namespace {

void require_existing(torch::Device device) {
  if (device.is_cpu()) return;
  if (!device.has_index())
    throw BadInput("DataParallel on {}: say which of these devices, by its number",
                   device_name(device));
  if (device.type() == virtual_devices::kType)
    return virtual_devices::Devices::get().require(device.index());
  const int count = c10::impl::hasDeviceGuardImpl(device.type())
                        ? static_cast<int>(c10::impl::VirtualGuardImpl(device.type()).deviceCount())
                        : 0;
  if (device.index() >= count)
    throw BadInput("{}: no such device; LibTorch finds {} of this kind", device_name(device),
                   count);
}

std::string describe_argument(size_t number) {
  return fmt::format("input {} of DataParallel", number + 1);
}

}  // namespace

std::vector<torch::Device> checked_devices(std::vector<torch::Device> devices) {
  if (devices.empty())
    throw BadInput("DataParallel got an empty list of devices: expected at least one");
  for (torch::Device& device : devices) {
    if (device.type() != devices.front().type())
      throw BadInput(
          "DataParallel on {} and {}: expected devices of one kind; leave out those of the other",
          device_name(devices.front()), device_name(device));
    require_existing(device);
    if (device.is_cpu()) device = torch::kCPU;
  }
  for (size_t i = 0; i < devices.size(); ++i)
    if (std::find(devices.begin(), devices.begin() + static_cast<int64_t>(i), devices[i]) !=
        devices.begin() + static_cast<int64_t>(i))
      throw BadInput("DataParallel got {} twice: expected different devices",
                     device_name(devices[i]));
  return devices;
}

void require_on_first_device(const torch::nn::Module& model, torch::Device first) {
  for (const auto& tensors : {parameters_of(model), buffers_of(model)})
    for (const StateTensor& state : tensors)
      if (state.tensor.device() != first)
        throw BadInput(
            "{} is on {}: all of the model must be on DataParallel's first device, {}; call "
            "model->to(device)",
            state.name, device_name(state.tensor.device()), device_name(first));
}

int64_t samples_of(const std::vector<torch::Tensor>& inputs, torch::Device first) {
  int64_t samples = -1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const torch::Tensor& input = inputs[i];
    if (!input.defined()) continue;
    if (!input.device().is_cpu() && input.device() != first)
      throw BadInput("{} is on {}: expected it on the CPU or on the first device, {}",
                     describe_argument(i), device_name(input.device()), device_name(first));
    if (input.dim() == 0) continue;
    if (samples >= 0 && input.size(0) != samples)
      throw BadInput("{} has {} samples, another one {}: dimension 0 is the sample",
                     describe_argument(i), input.size(0), samples);
    samples = input.size(0);
  }
  if (samples < 0)
    throw BadInput("DataParallel got no input with samples: expected a tensor with dimensions");
  return samples;
}

void require_samples(const std::vector<torch::Tensor>& results, int64_t samples,
                     torch::Device device) {
  for (size_t i = 0; i < results.size(); ++i) {
    const torch::Tensor& result = results[i];
    if (!result.defined()) continue;
    if (result.dim() == 0 || result.size(0) != samples)
      throw BadInput(
          "result {} of forward() on {} is {}: expected {} samples in dimension 0; compute losses "
          "and other means from what DataParallel returns",
          i + 1, device_name(device), result.dim() == 0 ? "a single number" : describe(result),
          samples);
  }
}

void rethrow_with(torch::Device device, Range samples) {
  const std::string where = fmt::format("in the forward pass on {}, of samples {} to {}",
                                        device_name(device), samples.begin, samples.end - 1);
  try {
    throw;
  } catch (const OutOfMemory&) {  // names the device itself
    throw;
  } catch (const BadInput& error) {
    throw BadInput("{}: {}", where, error.what());
  } catch (c10::Error& error) {
    error.add_context(where);
    throw;
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(fmt::format("{}: {}", where, error.what())));
  }
}

}  // namespace lockstep::parallel
