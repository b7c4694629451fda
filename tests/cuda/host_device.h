#pragma once

// Host memory as the device of a transport: its name is the CPU's, so that tensors on the CPU are
// on it. Callers compute in their own threads, and the transport in a stream that does its work
// late.
#include "transport/late_device.h"

namespace lockstep::cuda {

class HostStream final : public transport::LateStream {
 public:
  explicit HostStream(int number) : LateStream(nullptr, number) {}
  bool owns(const void* data, size_t bytes) const override { return data != nullptr || bytes == 0; }
};

/// The caller's stream is its thread, which therefore waits.
class HostHandover final : public transport::Handover {
 public:
  explicit HostHandover(std::shared_ptr<HostStream> own) : own_(std::move(own)) {}

  void take() override {}
  void give_back() override { done_ = own_->record(); }
  void receive() override {
    while (!done_->passed()) std::this_thread::yield();
  }

 private:
  const std::shared_ptr<HostStream> own_;
  std::shared_ptr<transport::LateQueuePoint> done_;
};

class HostQueue final : public transport::DeviceQueue {
 public:
  HostQueue(int number, std::string name, nccl_stand_in::Control& nccl)
      : number_(number),
        name_(std::move(name)),
        nccl_(nccl),
        own_(std::make_shared<HostStream>(number)) {}

  std::string device() const override { return name_; }
  void* stream() const override { return static_cast<nccl_stand_in::Stream*>(own_.get()); }
  void make_current() override {
    const std::lock_guard lock(nccl_.mutex);
    nccl_.current_devices[std::this_thread::get_id()] = number_;
  }
  transport::Memory allocate(size_t bytes) override { return transport::own_memory(bytes); }
  std::shared_ptr<transport::QueuePoint> record() override { return own_->record(); }
  std::shared_ptr<transport::Handover> hand_over() override {
    return std::make_shared<HostHandover>(own_);
  }
  std::unique_ptr<DeviceQueue> another() const override {
    return std::make_unique<HostQueue>(number_, name_, nccl_);
  }

  void combine(std::byte* into, const std::byte* from, size_t bytes, Type type,
               Operation operation) override {
    own_->put([=] { collective::host_arithmetic().combine(into, from, bytes, type, operation); });
  }
  void divide(std::byte* data, size_t bytes, Type type, int64_t n) override {
    own_->put([=] { collective::host_arithmetic().divide(data, bytes, type, n); });
  }
  void copy(std::byte* into, const std::byte* from, size_t bytes) override {
    own_->put([=] { collective::host_arithmetic().copy(into, from, bytes); });
  }

 private:
  const int number_;
  const std::string name_;
  nccl_stand_in::Control& nccl_;
  const std::shared_ptr<HostStream> own_;
};

}  // namespace lockstep::cuda
