#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/element.h"

namespace lockstep::transport {

/// Which memory elements are in: the host's, or that of the device whose memory a transport
/// carries.
enum class Place { host, device };

/// Computes in one of these memories. On a device, calls return at once: they put work into the
/// transport's stream, which does it in order.
class Arithmetic {
 public:
  virtual ~Arithmetic() = default;

  /// into = into (+, min, max) from, with the bits that `collective::combiner` gives; a mean adds.
  virtual void combine(std::byte* into, const std::byte* from, size_t bytes, Type type,
                       Operation operation) = 0;
  /// data = data / n, with the bits that `collective::divider` gives.
  virtual void divide(std::byte* data, size_t bytes, Type type, int64_t n) = 0;
  virtual void copy(std::byte* into, const std::byte* from, size_t bytes) = 0;
};

/// Hands buffers from the stream in which a caller computes to the transport's stream, and back.
/// The host waits for neither. It is made by the thread that calls a collective, when that stream
/// has been given all work on the buffers.
class Handover {
 public:
  virtual ~Handover() = default;

  /// The transport's stream waits for the caller's work. Then work on the buffers may be put into
  /// it.
  virtual void take() = 0;
  /// All work on the buffers has been put into the transport's stream.
  virtual void give_back() = 0;
  /// The stream of the thread that calls this waits for that work. Call it after `give_back`.
  virtual void receive() = 0;
};

/// What a transport that carries a device's memory offers besides messages.
class DeviceSide {
 public:
  virtual ~DeviceSide() = default;

  /// The device whose memory is carried: "cuda:0".
  virtual std::string device_name() const = 0;
  virtual Arithmetic& arithmetic() = 0;
  virtual std::shared_ptr<Handover> hand_over() = 0;

  /// Returns when all work that was put into the transport's stream is done. Throws Timeout (naming
  /// the ranks it waits for), PeerLost, and Error for what the device or its library reports.
  virtual void finish(Deadline deadline) = 0;
};

}  // namespace lockstep::transport
