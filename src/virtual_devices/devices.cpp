#include "virtual_devices/devices.h"

#include <cmath>
#include <utility>

#include "lockstep/error.h"
#include "virtual_devices/counting_allocator.h"
#include "virtual_devices/libtorch.h"
#include "virtual_devices/memory.h"
#include "virtual_devices/streams.h"

namespace lockstep {
namespace virtual_devices {

Devices& Devices::get() {
  static Devices& devices = *new Devices();  // tensors may outlive static objects
  return devices;
}

int Devices::count_for_libtorch() noexcept {
  if (count() == 0) asked_too_early_ = true;
  return count();
}

void Devices::make(const VirtualDeviceOptions& options) {
  if (asked_too_early_)
    throw BadInput(
        "make_virtual_devices was called after the first backward pass of this process: LibTorch "
        "then computes no backward pass on new devices; call it at the start of the program");
  options_ = options;
  for (int i = 0; i < options.count; ++i)
    accounts_.push_back(
        std::make_unique<MemoryAccount>(fmt::format("virtual:{}", i), options.memory_bytes));
}

void Devices::require(int index) const {
  if (index >= 0 && index < count()) return;
  if (count() == 0)
    throw BadInput("virtual:{}: there are no virtual devices; call make_virtual_devices first",
                   index);
  throw BadInput("virtual:{}: no such device; there are virtual:0 to virtual:{}", index,
                 count() - 1);
}

std::string name_of(c10::Device device) {
  return device.type() == kType ? fmt::format("virtual:{}", static_cast<int>(device.index()))
                                : device.str();
}

}  // namespace virtual_devices

using virtual_devices::Devices;

namespace {

void check(const VirtualDeviceOptions& options) {
  constexpr int kMost = 64;
  if (options.count < 1 || options.count > kMost)
    throw BadInput("{} virtual devices: expected 1 to {}", options.count, kMost);
  if (options.memory_bytes < 0)
    throw BadInput("virtual devices with {} bytes of memory: expected 0 (no limit) or more",
                   options.memory_bytes);
  if (options.cores < 0)
    throw BadInput("virtual devices with {} cores: expected 0 (a share of the process's) or more",
                   options.cores);
  const std::pair<const char*, double> figures[] = {{"copy_bandwidth", options.copy_bandwidth},
                                                    {"copy_latency", options.copy_latency},
                                                    {"largest_delay", options.largest_delay}};
  for (const auto& [name, value] : figures)
    if (!std::isfinite(value) || value < 0)
      throw BadInput("virtual devices with {} = {}: expected 0 or more", name, value);
}

std::string describe(const VirtualDeviceOptions& options) {
  return fmt::format(
      "{} with .memory_bytes = {}, .mode = {}, .cores = {}, .copy_bandwidth = {}, .copy_latency = "
      "{}, .largest_delay = {}",
      options.count, options.memory_bytes,
      options.mode == VirtualDeviceOptions::Mode::asynchronous ? "asynchronous" : "inlined",
      options.cores, options.copy_bandwidth, options.copy_latency, options.largest_delay);
}

}  // namespace

void make_virtual_devices(const VirtualDeviceOptions& options) {
  check(options);
  Devices& devices = Devices::get();
  if (devices.options() == options) return;
  if (devices.count() > 0)
    throw BadInput("virtual devices can be made once: there are {}; now there should be {}",
                   describe(devices.options()), describe(options));
  devices.make(options);
  if (devices.asynchronous()) virtual_devices::make_streams(options);
  virtual_devices::install_counting_allocator();
  virtual_devices::name_backend();
  virtual_devices::register_allocator();
  virtual_devices::register_operators();
  virtual_devices::register_autocast();
  virtual_devices::explain_segmentation_faults();
}

int virtual_device_count() {
  return Devices::get().count();
}

c10::Device virtual_device(int index) {
  Devices::get().require(index);
  return {virtual_devices::kType, static_cast<c10::DeviceIndex>(index)};
}

void synchronize(c10::Device device) {
  if (device.type() != virtual_devices::kType)
    throw BadInput("synchronize({}): expected a virtual device such as virtual:0",
                   virtual_devices::name_of(device));
  Devices::get().require(device.index());
  if (Devices::get().asynchronous()) virtual_devices::streams().synchronize_device(device.index());
}

}  // namespace lockstep
