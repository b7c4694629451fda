#include "parallel/device_streams.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "device/pinned_memory.h"
#include "virtual_devices/devices.h"

namespace lockstep::parallel {

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

c10::Stream another_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type())
      .getStreamFromGlobalPool(device, /*isHighPriority=*/false);
}

std::shared_ptr<c10::Event> record_event(c10::Stream stream) {
  auto event = std::make_shared<c10::Event>(stream.device_type());
  event->record(stream);
  return event;
}

void synchronize(c10::Stream stream) {
  c10::impl::VirtualGuardImpl(stream.device_type()).synchronizeStream(stream);
}

void synchronize(c10::Device device) {
  if (!device.is_cpu()) synchronize(current_stream(device));
}

std::shared_ptr<void> pin_memory(const void* begin, c10::Device device) {
  if (device.type() != virtual_devices::kType) return nullptr;
  return std::make_shared<device::PinnedHere>(begin);
}

}  // namespace lockstep::parallel
