#include "train/placement.h"

#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/version.h>

#include <optional>

#include "base/units.h"
#include "device/visible.h"
#include "lockstep/error.h"
#include "lockstep/virtual_device.h"
#include "virtual_devices/accounts.h"

namespace lockstep::train {
namespace {

// How many devices of a kind LibTorch finds.
int count_by_libtorch(c10::DeviceType type) {
  return c10::impl::hasDeviceGuardImpl(type)
             ? static_cast<int>(c10::impl::getDeviceGuardImpl(type)->deviceCount())
             : 0;
}

int found_cuda_devices() {
  if (!at::hasCUDA())
    throw BadInput(
        "device.kind = \"cuda\": LibTorch {} was built without CUDA; build Lockstep with one that "
        "has "
        "it (Debian 13, contrib: libtorch-cuda-dev), or set device.kind to cpu or virtual",
        TORCH_VERSION);
  const int found = count_by_libtorch(c10::kCUDA);
  if (found == 0)
    throw BadInput(
        "device.kind = \"cuda\": LibTorch {} was built with CUDA, but finds no device; see what "
        "`nvidia-smi -L` and CUDA_VISIBLE_DEVICES list",
        TORCH_VERSION);
  return found;
}

c10::Device made_device(const Recipe& recipe, int local_rank, const std::string& devices) {
  std::optional<DeviceSelection> selection;
  if (!devices.empty()) selection = parse_devices(devices);
  const std::string& kind = recipe.device.kind;
  const auto number = [&](int there) {
    return device_of_worker(kind, visible_devices(kind, there, visible_variables(), selection),
                            local_rank);
  };
  if (recipe.device.asynchronous && kind != "virtual")
    throw BadInput("device.asynchronous = true: only for device.kind = virtual, not {}", kind);
  if (kind == "virtual") {
    const int index = number(kMostVirtualDevices);
    const int count = selection ? selection->count.value_or(index + 1) : index + 1;
    VirtualDeviceOptions options{.count = count, .memory_bytes = memory_limit(recipe)};
    if (recipe.device.asynchronous) {
      options.mode = VirtualDeviceOptions::Mode::asynchronous;
      options.cores = static_cast<int>(recipe.train.threads);
    }
    make_virtual_devices(options);
    return virtual_device(index);
  }
  if (kind == "cuda") {
    const int index = number(found_cuda_devices());
    if (!recipe.device.memory.empty())
      throw BadInput("device.memory = {}: cuda devices have their own memory; leave it out",
                     recipe.device.memory);
    return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
  }
  limit_cpu_memory(0);
  return c10::kCPU;
}

}  // namespace

c10::Device device_for(const Recipe& recipe, int local_rank, const std::string& devices) {
  const c10::Device device = made_device(recipe, local_rank, devices);
  // Threads of their own compute backward passes on devices.
  if (MemoryAccount* const account = virtual_devices::account_of(device))
    account->set_use_of_other_threads(MemoryUse::activations);
  return device;
}

int64_t memory_limit(const Recipe& recipe) {
  return recipe.device.memory.empty() ? 0 : parse_bytes(recipe.device.memory);
}

void limit_memory(c10::Device device, const Recipe& recipe) {
  if (device.is_cpu()) limit_cpu_memory(memory_limit(recipe));
}

c10::Device device_of(const torch::nn::Module& model) {
  for (const torch::Tensor& parameter : model.parameters()) return parameter.device();
  for (const torch::Tensor& buffer : model.buffers()) return buffer.device();
  return c10::kCPU;
}

}  // namespace lockstep::train
