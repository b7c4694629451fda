#pragma once

#include <memory>
#include <string>

#include "base/table.h"
#include "transport/device.h"
#include "transport/transport.h"

namespace lockstep::transport {

/// A point in the work of a device queue.
class QueuePoint {
 public:
  virtual ~QueuePoint() = default;
  /// Whether all work before it is done. Throws Error if the device failed.
  virtual bool passed() = 0;
};

/// A device as a transport sees it: memory, a stream of work, which is done in the order in which
/// it is put there, and arithmetic in that stream. Transports know no more of a device, so that
/// they are the same for all that NCCL, or what stands for it, can use.
class DeviceQueue : public Arithmetic {
 public:
  /// "cuda:0".
  virtual std::string device() const = 0;
  /// The stream as NCCL takes it.
  virtual void* stream() const = 0;
  /// Makes the device the calling thread's current one: NCCL's communicators belong to that.
  virtual void make_current() = 0;
  /// Device memory, zeroed before any work that is put into this stream, or into the calling
  /// thread's current one, later. It may outlive the queue.
  virtual Memory allocate(size_t bytes) = 0;
  /// The end of the work that has been put into the stream.
  virtual std::shared_ptr<QueuePoint> record() = 0;
  /// Between the calling thread's current stream and this one.
  virtual std::shared_ptr<Handover> hand_over() = 0;
  /// Another stream of the same device.
  virtual std::unique_ptr<DeviceQueue> another() const = 0;
};

/// A kind of device that has queues.
struct DeviceQueueRow {
  std::string name;
  std::string about;
  /// On device number `index` of the kind. Throws BadInput if there is no such device.
  std::unique_ptr<DeviceQueue> (*make)(int index);
};

/// A row is added by the library that has the device's code, when it is loaded: "cuda" by a
/// liblockstep that was built with LibTorch for CUDA.
Table<DeviceQueueRow>& device_queues();

}  // namespace lockstep::transport
