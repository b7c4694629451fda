#include "virtual_devices/libtorch.h"

#include <ATen/autocast_mode.h>

#include "lockstep/error.h"
#include "virtual_devices/devices.h"
#include "virtual_devices/pinned_memory.h"

#if TORCH_VERSION_MAJOR >= 2
#include <ATen/detail/PrivateUse1HooksInterface.h>
#endif

namespace lockstep::virtual_devices {

#if TORCH_VERSION_MAJOR >= 2

namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool hasPrimaryContext(c10::DeviceIndex /*index*/) const override { return true; }
  bool isBuilt() const { return true; }      // since 2.7
  bool isAvailable() const { return true; }  // since 2.7
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  bool isPinnedPtr(const void* data) const override { return device::is_pinned(data); }
};

}  // namespace

void name_backend() {
  c10::register_privateuse1_backend("virtual");
  at::RegisterPrivateUse1HooksInterface(new Hooks());
}

AutocastState::AutocastState(c10::DeviceType device) : device_(device) {
  if (!at::autocast::is_autocast_available(device))
    throw BadInput("{}: this LibTorch has no autocast for it", c10::DeviceTypeName(device, true));
}

bool AutocastState::enabled() const {
  return at::autocast::is_autocast_enabled(device_);
}

c10::ScalarType AutocastState::type() const {
  return at::autocast::get_autocast_dtype(device_);
}

void AutocastState::set(bool enabled, c10::ScalarType type) const {
  at::autocast::set_autocast_enabled(device_, enabled);
  at::autocast::set_autocast_dtype(device_, type);
}

void AutocastState::require(c10::ScalarType /*type*/) const {}

#else

void name_backend() {}

namespace {

struct AutocastFunctions {
  c10::DeviceType device;
  bool (*enabled)();
  void (*set_enabled)(bool);
  c10::ScalarType (*type)();
  void (*set_type)(c10::ScalarType);
};

const AutocastFunctions* functions_for(c10::DeviceType device) {
  using namespace at::autocast;
  static const AutocastFunctions all[] = {
      {c10::kCPU, is_cpu_enabled, set_cpu_enabled, get_autocast_cpu_dtype, set_autocast_cpu_dtype},
      {c10::kCUDA, is_enabled, set_enabled, get_autocast_gpu_dtype, set_autocast_gpu_dtype},
      {kType, is_xpu_enabled, set_xpu_enabled, get_autocast_xpu_dtype, set_autocast_xpu_dtype}};
  for (const AutocastFunctions& each : all)
    if (each.device == device) return &each;
  return nullptr;
}

}  // namespace

AutocastState::AutocastState(c10::DeviceType device) : device_(device) {
  if (functions_for(device) == nullptr)
    throw BadInput("{}: this LibTorch has no autocast for it", c10::DeviceTypeName(device, true));
}

bool AutocastState::enabled() const {
  return functions_for(device_)->enabled();
}

c10::ScalarType AutocastState::type() const {
  return functions_for(device_)->type();
}

void AutocastState::set(bool enabled, c10::ScalarType type) const {
  functions_for(device_)->set_type(type);
  functions_for(device_)->set_enabled(enabled);
}

void AutocastState::require(c10::ScalarType type) const {
  if (device_ == c10::kCPU && type == c10::kHalf)
    throw BadInput("Autocast to half on the CPU: LibTorch 1 has only bfloat16 there");
}

#endif

}  // namespace lockstep::virtual_devices
