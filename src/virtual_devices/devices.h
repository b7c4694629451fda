#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>

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

  void make(const VirtualDeviceOptions& options);
  void unmake() { *this = Devices(); }
  int count() const { return static_cast<int>(accounts_.size()); }
  MemoryAccount& account(c10::DeviceIndex index) { return *accounts_[static_cast<size_t>(index)]; }
  /// Throws BadInput if there is no such device.
  void require(int index) const;
  const VirtualDeviceOptions& options() const { return options_; }

 private:
  VirtualDeviceOptions options_ = {.count = 0};
  std::vector<std::unique_ptr<MemoryAccount>> accounts_;
};

/// "virtual:0", "cpu".
std::string name_of(c10::Device device);

/// Tells LibTorch of the devices: guards, allocator, operators.
void register_guard();
void register_operators();

/// A host that uses a device's address ends in a segmentation fault: says why, then leaves it to
/// the handler that was there before.
void explain_segmentation_faults();

}  // namespace lockstep::virtual_devices
