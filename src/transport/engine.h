#pragma once

#include <cstddef>
#include <cstdint>

#include "base/deadline.h"
#include "base/element.h"

namespace lockstep::transport {

/// A transport's own all-reduce, such as MPI's. It adds in its own order, so its result is
/// reproducible at best for one world size.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual bool supports(Type type) const = 0;

  /// Every rank's `data` becomes the sum (min, max) over all ranks, in place; for a mean it
  /// computes the sum, which the caller divides. All ranks call with the same count, type and
  /// operation. Throws BadInput for a type it does not support, Timeout and PeerLost as
  /// `Transport::exchange`.
  virtual void all_reduce(std::byte* data, int64_t count, Type type, Operation operation,
                          Deadline deadline) = 0;
};

}  // namespace lockstep::transport
