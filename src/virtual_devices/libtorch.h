#pragma once

// What differs between LibTorch's versions.

#include <c10/core/DeviceType.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/ScalarType.h>
#include <torch/version.h>

#if TORCH_VERSION_MAJOR < 2
#define LOCKSTEP_ALLOCATE_CONST const
#define LOCKSTEP_COPY_DATA
#else
#define LOCKSTEP_ALLOCATE_CONST
#define LOCKSTEP_COPY_DATA                                                       \
  void copy_data(void* to, const void* from, std::size_t bytes) const override { \
    default_copy_data(to, from, bytes);                                          \
  }
#endif

namespace lockstep::virtual_devices {

/// Whether operators without a derivative need a rule for what autograd does with them.
constexpr bool kLacksAutogradFallback = TORCH_VERSION_MAJOR < 2;

/// Whether pin_memory() is for CUDA where no device is given, rather than for what there is.
constexpr bool kPinsForCuda = TORCH_VERSION_MAJOR < 2;

/// The key by which a call on virtual devices reaches autocast. LibTorch 1 has none for them; that
/// of another kind of device, which it has no kernels for, serves.
#if TORCH_VERSION_MAJOR < 2
constexpr c10::DispatchKey kAutocastKey = c10::DispatchKey::AutocastXPU;
#else
constexpr c10::DispatchKey kAutocastKey = c10::DispatchKey::AutocastPrivateUse1;
#endif

/// This thread's autocast for a type of device. Throws BadInput if that has none.
class AutocastState {
 public:
  explicit AutocastState(c10::DeviceType device);
  bool enabled() const;
  c10::ScalarType type() const;
  void set(bool enabled, c10::ScalarType type) const;
  /// Throws BadInput if this LibTorch cannot convert to that type on such a device.
  void require(c10::ScalarType type) const;

 private:
  c10::DeviceType device_;
};

/// Gives the devices their name in LibTorch's messages, and says that there are some: without that,
/// LibTorch 2.14's autograd refuses them. LibTorch 1 has no such function.
void name_backend();

}  // namespace lockstep::virtual_devices
