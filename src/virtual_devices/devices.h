#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>

#include <atomic>
#include <memory>
#include <vector>

#include "device/memory_account.h"
#include "lockstep/virtual_device.h"

namespace lockstep::virtual_devices {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
constexpr c10::DispatchKey kKey = c10::DispatchKey::PrivateUse1;

/// All virtual devices; constant once they are made.
class Devices {
 public:
  static Devices& get();

  /// Throws BadInput if LibTorch has counted devices already.
  void make(const VirtualDeviceOptions& options);
  /// LibTorch's autograd counts devices in its first backward pass, makes a thread for each, and
  /// never counts again.
  int count_for_libtorch() noexcept;
  int count() const { return static_cast<int>(accounts_.size()); }
  MemoryAccount& account(c10::DeviceIndex index) { return *accounts_[static_cast<size_t>(index)]; }
  /// Throws BadInput if there is no such device.
  void require(int index) const;
  const VirtualDeviceOptions& options() const { return options_; }
  bool asynchronous() const { return options_.mode == VirtualDeviceOptions::Mode::asynchronous; }

 private:
  VirtualDeviceOptions options_ = {.count = 0};
  std::vector<std::unique_ptr<MemoryAccount>> accounts_;
  std::atomic<bool> asked_too_early_ = false;
};

/// "virtual:0", "cpu".
std::string name_of(c10::Device device);

/// The number of this thread's current device.
c10::DeviceIndex current_device();

/// Tells LibTorch which code computes on the devices.
void register_operators();

/// Tells LibTorch how calls on the devices are converted while autocast is enabled.
void register_autocast();

/// A host that uses a device's address ends in a segmentation fault: says why, then leaves it to
/// the handler that was there before.
void explain_segmentation_faults();

}  // namespace lockstep::virtual_devices
