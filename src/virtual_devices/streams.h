#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <string>
#include <vector>

#include "device/stream_set.h"
#include "lockstep/virtual_device.h"

namespace lockstep::virtual_devices {

/// Makes the streams of asynchronous devices; once, before anything else.
void make_streams(const VirtualDeviceOptions& options);

/// They exist until the process ends.
device::StreamSet& streams();

device::StreamId id_of(c10::Stream stream);

/// This thread's current stream of a device.
c10::Stream current_stream(c10::DeviceIndex index);
/// Makes it the current one of its device; returns the one before.
c10::Stream exchange_current_stream(c10::Stream stream);
/// One of the device's other streams, in turns.
c10::Stream stream_from_pool(c10::DeviceIndex index);

/// A task's use of a tensor of a device.
struct Use {
  at::Tensor tensor;
  bool written = false;
};

/// Starts a task on this thread's current stream of the device. `by` names it in messages, and
/// lives on. Throws BadInput if it races with a task of another stream.
void start_task(c10::DeviceIndex index, const std::string& by, const std::vector<Use>& uses,
                device::Stream::Task task);
/// The same, and waits for it; throws what it throws.
void run_task(c10::DeviceIndex index, const std::string& by, const std::vector<Use>& uses,
              const device::Stream::Task& task,
              device::StreamSet::Wait wait = device::StreamSet::Wait::of_program);

}  // namespace lockstep::virtual_devices
