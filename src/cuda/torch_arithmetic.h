#pragma once

#include <c10/core/Device.h>

#include "transport/device.h"

namespace lockstep::cuda {

/// Arithmetic by LibTorch's operators, in the calling thread's current stream of a device. They are
/// chosen so that an element has the same bits on every device as in host memory: each result is
/// one correctly rounded operation, whatever the kernel.
class TorchArithmetic final : public transport::Arithmetic {
 public:
  explicit TorchArithmetic(c10::Device device) : device_(device) {}

  void combine(std::byte* into, const std::byte* from, size_t bytes, Type type,
               Operation operation) override;
  void divide(std::byte* data, size_t bytes, Type type, int64_t n) override;
  void copy(std::byte* into, const std::byte* from, size_t bytes) override;

 private:
  const c10::Device device_;
};

}  // namespace lockstep::cuda
