#pragma once

#include <c10/core/Stream.h>

#include <memory>

#include "cuda/torch_arithmetic.h"
#include "transport/nccl/device_queue.h"

namespace lockstep::cuda {

/// A stream of a device that LibTorch knows, by LibTorch's generic streams and events.
class TorchQueue final : public transport::DeviceQueue {
 public:
  /// What NCCL takes for a stream.
  using HandleOf = void* (*)(const c10::Stream& stream);

  TorchQueue(c10::Stream stream, HandleOf handle_of)
      : stream_(stream), handle_of_(handle_of), arithmetic_(stream.device()) {}

  std::string device() const override;
  void* stream() const override { return handle_of_(stream_); }
  void make_current() override;
  transport::Memory allocate(size_t bytes) override;
  std::shared_ptr<transport::QueuePoint> record() override;
  std::shared_ptr<transport::Handover> hand_over() override;
  std::unique_ptr<transport::DeviceQueue> another() const override;

  void combine(std::byte* into, const std::byte* from, size_t bytes, Type type,
               Operation operation) override;
  void divide(std::byte* data, size_t bytes, Type type, int64_t n) override;
  void copy(std::byte* into, const std::byte* from, size_t bytes) override;

 private:
  const c10::Stream stream_;
  const HandleOf handle_of_;
  TorchArithmetic arithmetic_;
};

}  // namespace lockstep::cuda
