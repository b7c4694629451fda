#include "cuda/torch_queue.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "lockstep/error.h"
#include "parallel/tensor_buffer.h"

namespace lockstep::cuda {
namespace {

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

class TorchQueuePoint final : public transport::QueuePoint {
 public:
  explicit TorchQueuePoint(const c10::Stream& stream) : event_(stream.device_type()) {
    event_.record(stream);
  }

  bool passed() override try { return event_.query(); } catch (const c10::Error& error) {
    throw Error(error.what_without_backtrace());
  }

 private:
  c10::Event event_;
};

class TorchHandover final : public transport::Handover {
 public:
  explicit TorchHandover(const c10::Stream& own)
      : own_(own), ready_(own.device_type()), done_(own.device_type()) {
    ready_.record(current_stream(own_.device()));
  }

  void take() override { ready_.block(own_); }
  void give_back() override { done_.record(own_); }
  void receive() override { done_.block(current_stream(own_.device())); }

 private:
  const c10::Stream own_;
  c10::Event ready_;
  c10::Event done_;
};

}  // namespace

std::string TorchQueue::device() const {
  return parallel::device_name(stream_.device());
}

void TorchQueue::make_current() {
  c10::impl::VirtualGuardImpl(stream_.device_type()).setDevice(stream_.device());
}

// The calling thread's stream zeroes it, and this queue's stream waits for that. The allocator must
// not give it to others before this queue's stream has done what it has to do with it.
transport::Memory TorchQueue::allocate(size_t bytes) {
  const at::Tensor tensor = at::zeros({static_cast<int64_t>(bytes)},
                                      at::TensorOptions(at::kByte).device(stream_.device()));
  c10::Event zeroed(stream_.device_type());
  zeroed.record(current_stream(stream_.device()));
  zeroed.block(stream_);
  tensor.record_stream(stream_);
  return {{static_cast<std::byte*>(tensor.data_ptr()), [tensor](std::byte*) {}}, bytes};
}

std::shared_ptr<transport::QueuePoint> TorchQueue::record() {
  return std::make_shared<TorchQueuePoint>(stream_);
}

std::shared_ptr<transport::Handover> TorchQueue::hand_over() {
  return std::make_shared<TorchHandover>(stream_);
}

std::unique_ptr<transport::DeviceQueue> TorchQueue::another() const {
  constexpr bool kHighPriority = true;
  return std::make_unique<TorchQueue>(c10::impl::VirtualGuardImpl(stream_.device_type())
                                          .getStreamFromGlobalPool(stream_.device(), kHighPriority),
                                      handle_of_);
}

void TorchQueue::combine(std::byte* into, const std::byte* from, size_t bytes, Type type,
                         Operation operation) {
  const c10::StreamGuard in_stream(stream_);
  arithmetic_.combine(into, from, bytes, type, operation);
}

void TorchQueue::divide(std::byte* data, size_t bytes, Type type, int64_t n) {
  const c10::StreamGuard in_stream(stream_);
  arithmetic_.divide(data, bytes, type, n);
}

void TorchQueue::copy(std::byte* into, const std::byte* from, size_t bytes) {
  const c10::StreamGuard in_stream(stream_);
  arithmetic_.copy(into, from, bytes);
}

}  // namespace lockstep::cuda
