#include "virtual_devices/accounts.h"

#include "lockstep/error.h"
#include "virtual_devices/counting_allocator.h"
#include "virtual_devices/devices.h"

namespace lockstep {
namespace virtual_devices {

MemoryAccount* account_of(c10::Device device) {
  if (device.is_cpu()) return cpu_account();
  if (device.type() != kType) return nullptr;
  Devices::get().require(device.index());
  return &Devices::get().account(device.index());
}

namespace {

MemoryAccount& counted(c10::Device device) {
  if (MemoryAccount* const account = account_of(device)) return *account;
  throw BadInput("the memory of {} is not counted: {}", name_of(device),
                 device.is_cpu() ? "call limit_cpu_memory first"
                                 : "expected the CPU or a virtual device such as virtual:0");
}

}  // namespace
}  // namespace virtual_devices

DeviceMemory memory_of(c10::Device device) {
  return virtual_devices::counted(device).figures();
}

void forget_peak_memory(c10::Device device) {
  virtual_devices::counted(device).forget_peak();
}

void limit_cpu_memory(int64_t bytes) {
  if (bytes < 0) throw BadInput("limit_cpu_memory({}): expected 0 (no limit) or more bytes", bytes);
  virtual_devices::install_counting_allocator();
  make_cpu_account().set_limit(bytes);
}

}  // namespace lockstep
