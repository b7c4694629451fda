#pragma once

#include <cstddef>
#include <cstdint>

#include "base/deadline.h"
#include "base/element.h"

namespace lockstep::transport {

/// A transport's own all-reduce, such as MPI's. It adds in an order of its own, so what comes out
/// is repeatable for one world size at best.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual bool supports(Type type) const = 0;

  /// Every rank's `data` becomes the sum (min, max) of all, in place; a mean is a sum here, which
  /// the caller divides. All ranks call with the same count, type and operation. Throws BadInput
  /// for a type it does not support, Timeout and PeerLost as `Transport::exchange`.
  virtual void all_reduce(std::byte* data, int64_t count, Type type, Operation operation,
                          Deadline deadline) = 0;
};

}  // namespace lockstep::transport
