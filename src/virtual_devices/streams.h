#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_annotations.h"
#include "device/access_order.h"
#include "device/stream.h"
#include "lockstep/virtual_device.h"

namespace lockstep::virtual_devices {

/// A task's use of a tensor of the device.
struct Use {
  at::Tensor tensor;
  bool written = false;
};

/// A moment of a stream, as LibTorch's events know it.
struct StreamEvent {
  c10::Stream stream;
  device::Stream::Moment moment = 0;
  device::Clock clock = {};
};

/// The streams of asynchronous devices: what they are asked to compute, and what waits for what.
/// Stream 0 of a device is its default one; the others are made when they are first used.
class Streams {
 public:
  static Streams& get();

  /// Once, before anything else.
  void make(const VirtualDeviceOptions& options);

  /// Starts a task on this thread's current stream of the device. `by` names it in messages, and
  /// lives on. Throws BadInput if it uses what another stream is still using.
  void start(c10::DeviceIndex index, const std::string& by, const std::vector<Use>& uses,
             device::Stream::Task task) EXCLUDES(mutex_);
  /// The same, and waits for it; throws what it throws.
  void run(c10::DeviceIndex index, const std::string& by, const std::vector<Use>& uses,
           const device::Stream::Task& task) EXCLUDES(mutex_);

  StreamEvent record(c10::Stream stream) EXCLUDES(mutex_);
  /// Later tasks of the stream wait for the event.
  void wait(c10::Stream stream, const StreamEvent& event) EXCLUDES(mutex_);
  /// Whether the event's moment is reached.
  bool query(const StreamEvent& event) EXCLUDES(mutex_);
  /// The host waits.
  void synchronize(const StreamEvent& event) EXCLUDES(mutex_);
  void synchronize(c10::Stream stream) EXCLUDES(mutex_) { synchronize(record(stream)); }
  void synchronize(c10::DeviceIndex index) EXCLUDES(mutex_);

 private:
  static constexpr size_t kPerDevice = 1 + 8;

  struct Lane {
    size_t number = 0;  ///< in order_
    std::unique_ptr<device::Stream> stream;
  };

  Lane& lane(c10::Stream stream) REQUIRES(mutex_);
  Lane& begin(c10::DeviceIndex index, const std::string& by, const std::vector<Use>& uses,
              device::Stream::Task task) REQUIRES(mutex_);
  void note(size_t stream, device::Stream::Moment moment, const std::string& by,
            const std::vector<Use>& uses) REQUIRES(mutex_);
  void prepare_thread(c10::DeviceIndex index) const;
  void tell_errors(device::Stream& stream, device::Stream::Moment moment) EXCLUDES(mutex_);
  static void end_all();

  VirtualDeviceOptions options_;  ///< constant once they are made

  Mutex mutex_;
  device::AccessOrder order_ GUARDED_BY(mutex_);
  std::vector<std::array<Lane, kPerDevice>> lanes_ GUARDED_BY(mutex_);  ///< by device, by stream
};

/// This thread's current stream of a device.
c10::Stream current_stream(c10::DeviceIndex index);
/// Makes it the current one of its device; returns the one before.
c10::Stream exchange_current_stream(c10::Stream stream);
/// One of the device's other streams, in turns.
c10::Stream stream_from_pool(c10::DeviceIndex index);

}  // namespace lockstep::virtual_devices
