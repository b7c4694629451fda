#include "device/stream.h"

#include <fmt/format.h>
#include <pthread.h>

#include <chrono>
#include <utility>

#include "device/random.h"
#include "lockstep/error.h"

namespace lockstep::device {
namespace {

constexpr Stream::Moment kMostQueued = 1000;

thread_local bool is_a_streams_thread = false;

// About 20 microseconds: to sleep and be woken takes longer than that, and tasks follow each other
// closely.
constexpr int kSpins = 500;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

// What a thread is prepared by may not outlast the program's last moments: LibTorch's pool of
// threads is destroyed before the streams are.
Stream::Stream(StreamOptions options) : options_(std::move(options)), thread_([this] { work(); }) {
  prepared_.wait();
}

Stream::~Stream() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Stream::Moment Stream::start(Task task) {
  MutexLock lock(mutex_);
  queue_.push_back(std::move(task));
  const Moment moment = started_.fetch_add(1, std::memory_order_release) + 1;
  const bool awaited = sleepers_ > 0;
  lock.unlock();
  if (awaited) changed_.notify_all();
  return moment;
}

bool Stream::has_room() const {
  const Moment ended = ended_.load(std::memory_order_acquire);
  return started_.load(std::memory_order_acquire) - ended < kMostQueued;
}

void Stream::await_room() const {
  if (is_a_streams_thread || has_room()) return;
  const MutexLock lock(mutex_);
  ++sleepers_;
  while (!has_room()) changed_.wait(mutex_);
  --sleepers_;
}

void Stream::wait_for(const Stream& other, Moment moment) {
  if (&other == this || (other.has_reached(moment) && !other.has_failed(moment))) return;
  start([&other, moment] {
    other.await(moment);
    other.rethrow(moment);
  });
}

void Stream::refuse_own_thread() const {
  if (std::this_thread::get_id() == thread_.get_id())
    throw Error(fmt::format(
        "{}: a task waits for its own stream, which would never end: it may not use tensors of its "
        "device",
        options_.name));
}

bool Stream::has_failed(Moment moment) const {
  const MutexLock lock(mutex_);
  return error_ && failed_ < moment;
}

void Stream::rethrow(Moment moment) const {
  const MutexLock lock(mutex_);
  if (error_ && failed_ < moment) std::rethrow_exception(error_);
}

void Stream::await(Moment moment) const {
  if (!has_reached(moment)) refuse_own_thread();
  for (int i = 0; i < kSpins; ++i) {
    if (has_reached(moment)) return;
    pause_briefly();
  }
  const MutexLock lock(mutex_);
  ++sleepers_;
  while (!has_reached(moment)) changed_.wait(mutex_);
  --sleepers_;
}

void Stream::synchronize(Moment moment) {
  await(moment);
  std::exception_ptr error;
  {
    const MutexLock lock(mutex_);
    std::swap(error, error_);
  }
  if (error) std::rethrow_exception(error);
}

void Stream::forget(const std::exception_ptr& error) {
  const MutexLock lock(mutex_);
  if (error_ == error) error_ = nullptr;
}

Stream::Task Stream::next() {
  const Moment ended = ended_.load(std::memory_order_relaxed);
  for (int i = 0; i < kSpins && started_.load(std::memory_order_acquire) == ended; ++i)
    pause_briefly();
  const MutexLock lock(mutex_);
  ++sleepers_;
  while (queue_.empty() && !ending_) changed_.wait(mutex_);
  --sleepers_;
  if (queue_.empty()) return nullptr;
  Task task = std::move(queue_.front());
  queue_.pop_front();
  return task;
}

void Stream::work() {
  constexpr size_t kLongest = 15;  // of a thread's name
  pthread_setname_np(pthread_self(), options_.name.substr(0, kLongest).c_str());
  is_a_streams_thread = true;
  if (options_.prepare) options_.prepare();
  prepared_.count_down();
  while (Task task = next()) {
    attempt(task);
    task = nullptr;  // what it holds is freed before anyone is told that it has ended
    MutexLock lock(mutex_);
    ended_.fetch_add(1, std::memory_order_release);
    const bool awaited = sleepers_ > 0;
    lock.unlock();
    if (awaited) changed_.notify_all();
  }
}

void Stream::attempt(const Task& task) {
  {
    const MutexLock lock(mutex_);
    if (error_) return;
  }
  delay();
  try {
    task();
  } catch (...) {
    const MutexLock lock(mutex_);
    error_ = std::current_exception();
    failed_ = ended_.load(std::memory_order_relaxed);
  }
}

void Stream::delay() {
  if (options_.largest_delay == 0) return;
  RandomStream random(Purpose::delay, std::hash<std::string>()(options_.name), delays_++);
  std::this_thread::sleep_for(
      std::chrono::duration<double>(options_.largest_delay * random.uniform()));
}

}  // namespace lockstep::device
