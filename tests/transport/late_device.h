#pragma once

// Devices for tests whose memory is host memory, and whose streams are threads that do their work
// late: before each job a stream sleeps for a random while. So what does not wait for a stream
// finds memory as it was before. Faults leave out one of the waits.
#include <condition_variable>
#include <deque>
#include <map>
#include <random>

#include "collective/fold/fold.h"
#include "transport/nccl/device_queue.h"
#include "transport/nccl_stand_in/stand_in.h"
#include "transport/own_memory.h"

namespace lockstep::transport {

/// The memory of one device. What is freed is not used again, since streams may still work on it.
class LateMemory {
 public:
  static Memory allocate(const std::shared_ptr<LateMemory>& device, size_t bytes) {
    Memory memory = own_memory(bytes);
    std::byte* const data = memory.data.get();
    {
      const std::lock_guard lock(device->mutex_);
      device->pieces_[data] = bytes;
    }
    return {{data,
             [device, kept = memory.data](std::byte* freed) {
               const std::lock_guard lock(device->mutex_);
               device->pieces_.erase(freed);
               device->freed_.push_back(kept);
             }},
            bytes};
  }

  bool owns(const std::byte* data, size_t bytes) const {
    const std::lock_guard lock(mutex_);
    auto after = pieces_.upper_bound(data);
    if (after == pieces_.begin()) return false;
    const auto& [begin, size] = *--after;
    return data + bytes <= begin + size;
  }

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, size_t> pieces_;  ///< guarded by mutex_, as is freed_
  std::vector<std::shared_ptr<std::byte>> freed_;
};

class LateQueuePoint final : public QueuePoint {
 public:
  bool passed() override { return passed_; }
  std::atomic<bool> passed_ = false;
};

class LateStream : public nccl_stand_in::Stream {
 public:
  LateStream(std::shared_ptr<LateMemory> memory, int number) : memory_(std::move(memory)) {
    device = number;
    thread_ = std::thread([this] { work(); });
  }
  ~LateStream() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  LateStream(const LateStream&) = delete;
  LateStream& operator=(const LateStream&) = delete;

  void put(std::function<void()> job) override {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    changed_.notify_all();
  }
  bool owns(const void* data, size_t bytes) const override {
    return memory_->owns(static_cast<const std::byte*>(data), bytes);
  }

  std::shared_ptr<LateQueuePoint> record() {
    auto moment = std::make_shared<LateQueuePoint>();
    put([moment] { moment->passed_ = true; });
    return moment;
  }

  void wait_for(std::shared_ptr<LateQueuePoint> moment) {
    put([this, moment = std::move(moment)] {
      set_awaited(moment);
      while (!moment->passed_ && !stopping_)
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      set_awaited(nullptr);
    });
  }

  /// Returns when the stream has nothing to do, or waits for a moment.
  void settle() {
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        if (jobs_.empty() && !busy_) return;
        if (awaited_ != nullptr && !awaited_->passed_) return;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

 private:
  void set_awaited(const std::shared_ptr<LateQueuePoint>& moment) {
    const std::lock_guard lock(mutex_);
    awaited_ = moment;
  }

  void work() {
    std::minstd_rand random(static_cast<unsigned>(device) + 1);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
      job();
      lock.lock();
      busy_ = false;
    }
  }

  const std::shared_ptr<LateMemory> memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;  ///< guarded by mutex_, as the next two
  bool busy_ = false;
  std::shared_ptr<LateQueuePoint> awaited_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

/// The wait that is left out.
enum class MissingWait { none, of_the_transport, of_the_caller };

/// A device and the stream in which its caller computes.
struct LateDevice {
  explicit LateDevice(int number_of_device)
      : number(number_of_device),
        memory(std::make_shared<LateMemory>()),
        caller(std::make_shared<LateStream>(memory, number)) {}

  int number;
  std::shared_ptr<LateMemory> memory;
  std::shared_ptr<LateStream> caller;
  MissingWait missing = MissingWait::none;
};

class LateHandover final : public Handover {
 public:
  LateHandover(std::shared_ptr<LateStream> caller, std::shared_ptr<LateStream> own,
               MissingWait missing)
      : caller_(std::move(caller)),
        own_(std::move(own)),
        missing_(missing),
        ready_(caller_->record()) {}

  void take() override {
    if (missing_ != MissingWait::of_the_transport) own_->wait_for(ready_);
  }
  void give_back() override { done_ = own_->record(); }
  void receive() override {
    if (missing_ != MissingWait::of_the_caller) caller_->wait_for(done_);
  }

 private:
  const std::shared_ptr<LateStream> caller_;
  const std::shared_ptr<LateStream> own_;
  const MissingWait missing_;
  const std::shared_ptr<LateQueuePoint> ready_;
  std::shared_ptr<LateQueuePoint> done_;
};

class LateQueue final : public DeviceQueue {
 public:
  LateQueue(LateDevice device, nccl_stand_in::Control& nccl)
      : device_(std::move(device)),
        nccl_(nccl),
        own_(std::make_shared<LateStream>(device_.memory, device_.number)) {}

  std::string device() const override { return fmt::format("late:{}", device_.number); }
  void* stream() const override { return static_cast<nccl_stand_in::Stream*>(own_.get()); }
  void make_current() override {
    const std::lock_guard lock(nccl_.mutex);
    nccl_.current_devices[std::this_thread::get_id()] = device_.number;
  }
  Memory allocate(size_t bytes) override { return LateMemory::allocate(device_.memory, bytes); }
  std::shared_ptr<QueuePoint> record() override { return own_->record(); }
  std::shared_ptr<Handover> hand_over() override {
    return std::make_shared<LateHandover>(device_.caller, own_, device_.missing);
  }
  std::unique_ptr<DeviceQueue> another() const override {
    return std::make_unique<LateQueue>(device_, nccl_);
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

  const std::shared_ptr<LateStream>& own_stream() const { return own_; }

 private:
  const LateDevice device_;
  nccl_stand_in::Control& nccl_;
  const std::shared_ptr<LateStream> own_;
};

}  // namespace lockstep::transport
