#include "train/placement.h"

#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/version.h>

#include <algorithm>
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
        "has it (Debian 13, contrib: libtorch-cuda-dev), or set device.kind to cpu or virtual",
        TORCH_VERSION);
  const int found = count_by_libtorch(c10::kCUDA);
  if (found == 0)
    throw BadInput(
        "device.kind = \"cuda\": LibTorch {} was built with CUDA, but finds no device; see what "
        "`nvidia-smi -L` and CUDA_VISIBLE_DEVICES list",
        TORCH_VERSION);
  return found;
}

// The numbers of a worker's devices, of `there` of the recipe's kind.
std::vector<int> numbers_of(const Recipe& recipe, int there, int local_rank, int stages,
                            const std::optional<DeviceSelection>& selection) {
  const std::string& kind = recipe.device.kind;
  if (is_data_parallel(recipe))
    return all_devices_of_worker(kind, there, visible_variables(), selection);
  const std::vector<int> visible = visible_devices(kind, there, visible_variables(), selection);
  std::vector<int> numbers;
  for (int stage = 0; stage < stages; ++stage)
    numbers.push_back(stages > 1 ? device_of_stage(kind, visible, stage, stages)
                                 : device_of_worker(kind, visible, local_rank));
  return numbers;
}

std::vector<c10::Device> virtual_devices_for(const Recipe& recipe, const std::vector<int>& numbers,
                                             const std::optional<DeviceSelection>& selection) {
  const int needed = *std::ranges::max_element(numbers) + 1;
  VirtualDeviceOptions options{.count = selection ? selection->count.value_or(needed) : needed,
                               .memory_bytes = memory_limit(recipe)};
  if (recipe.device.asynchronous) {
    options.mode = VirtualDeviceOptions::Mode::asynchronous;
    options.cores = static_cast<int>(recipe.train.threads);
  }
  make_virtual_devices(options);
  std::vector<c10::Device> made;
  for (const int number : numbers) made.push_back(virtual_device(number));
  return made;
}

std::vector<c10::Device> made_devices(const Recipe& recipe, int local_rank, int stages,
                                      const std::string& devices) {
  std::optional<DeviceSelection> selection;
  if (!devices.empty()) selection = parse_devices(devices);
  const std::string& kind = recipe.device.kind;
  if (recipe.device.asynchronous && kind != "virtual")
    throw BadInput("device.asynchronous = true: only for device.kind = virtual, not {}", kind);
  if (kind == "virtual")
    return virtual_devices_for(
        recipe, numbers_of(recipe, kMostVirtualDevices, local_rank, stages, selection), selection);
  if (kind == "cuda") {
    std::vector<c10::Device> found;
    for (const int number : numbers_of(recipe, found_cuda_devices(), local_rank, stages, selection))
      found.emplace_back(c10::kCUDA, static_cast<c10::DeviceIndex>(number));
    if (!recipe.device.memory.empty())
      throw BadInput("device.memory = {}: cuda devices have their own memory; leave it out",
                     recipe.device.memory);
    return found;
  }
  visible_devices(kind, stages, {}, selection);  // refuses a selection of another kind
  limit_cpu_memory(0);
  return std::vector<c10::Device>(static_cast<size_t>(stages), c10::kCPU);
}

}  // namespace

std::vector<c10::Device> devices_for(const Recipe& recipe, int local_rank, int stages,
                                     const std::string& devices) {
  std::vector<c10::Device> made = made_devices(recipe, local_rank, stages, devices);
  // Threads of their own compute backward passes on devices.
  for (const c10::Device device : made)
    if (MemoryAccount* const account = virtual_devices::account_of(device))
      account->set_use_of_other_threads(MemoryUse::activations);
  return made;
}

c10::Device device_for(const Recipe& recipe, int local_rank, const std::string& devices) {
  return devices_for(recipe, local_rank, 1, devices).front();
}

int64_t memory_limit(const Recipe& recipe) {
  return recipe.device.memory.empty() ? 0 : parse_bytes(recipe.device.memory);
}

void limit_memory(c10::Device device, const Recipe& recipe) {
  if (device.is_cpu()) limit_cpu_memory(memory_limit(recipe));
}

}  // namespace lockstep::train
