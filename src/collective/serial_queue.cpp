#include "collective/serial_queue.h"

#include <utility>

#include "base/clock.h"
#include "lockstep/error.h"

namespace lockstep::collective {

void Pending::wait() const {
  if (!state_) return;
  State& state = *state_;
  {
    const MutexLock lock(state.mutex);
    while (!state.done) state.changed.wait(state.mutex);
    if (state.error) std::rethrow_exception(state.error);
  }
  if (handover_ != nullptr) handover_->receive();
}

bool Pending::done() const {
  if (!state_) return true;
  State& state = *state_;
  const MutexLock lock(state.mutex);
  return state.done;
}

double Pending::seconds() const {
  if (!state_) return 0;
  State& state = *state_;
  const MutexLock lock(state.mutex);
  return state.seconds;
}

SerialQueue::~SerialQueue() {
  std::deque<Waiting> abandoned;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    abandoned.swap(waiting_);
  }
  changed_.notify_all();
  for (const Waiting& each : abandoned)
    finish(each, std::make_exception_ptr(Error("the communicator was closed before this began")));
  if (worker_.joinable()) worker_.join();
}

Pending SerialQueue::start(std::function<void()> action,
                           std::shared_ptr<transport::Handover> handover) {
  Pending pending;
  pending.handover_ = std::move(handover);
  pending.state_ = std::make_shared<Pending::State>();
  {
    const MutexLock lock(mutex_);
    waiting_.push_back({std::move(action), pending.state_});
    if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
  }
  changed_.notify_all();
  return pending;
}

bool SerialQueue::enter_if_idle() {
  const MutexLock lock(mutex_);
  if (running_ || !waiting_.empty()) return false;
  return running_ = true;
}

void SerialQueue::leave() {
  bool awaited = false;
  {
    const MutexLock lock(mutex_);
    running_ = false;
    awaited = !waiting_.empty();
  }
  if (awaited) changed_.notify_all();
}

void SerialQueue::work() {
  MutexLock lock(mutex_);
  while (true) {
    while (!stopping_ && (waiting_.empty() || running_)) changed_.wait(mutex_);
    if (stopping_) return;
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    running_ = true;
    lock.unlock();
    std::exception_ptr error;
    const Stopwatch stopwatch;
    try {
      next.action();
    } catch (...) {
      error = std::current_exception();
    }
    const double seconds = stopwatch.seconds();
    next.action = nullptr;  // what it holds is freed before anyone is told that it has ended
    lock.lock();
    running_ = false;
    lock.unlock();
    finish(next, error, seconds);
    lock.lock();
  }
}

void SerialQueue::finish(const Waiting& waiting, std::exception_ptr error, double seconds) {
  Pending::State& state = *waiting.state;
  {
    const MutexLock lock(state.mutex);
    state.done = true;
    state.error = std::move(error);
    state.seconds = seconds;
  }
  state.changed.notify_all();
}

}  // namespace lockstep::collective
