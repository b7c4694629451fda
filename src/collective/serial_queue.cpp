#include "collective/serial_queue.h"

#include <utility>

#include "base/clock.h"
#include "lockstep/error.h"

namespace lockstep::collective {

void Pending::wait() const {
  if (!state_) return;
  if (!done()) queue_->run_until(*state_);
  {
    const MutexLock lock(state_->mutex);
    if (state_->error) std::rethrow_exception(state_->error);
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
  std::thread worker;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    for (const Waiting& each : waiting_)
      finish(each, std::make_exception_ptr(Error("the communicator was closed before this began")));
    waiting_.clear();
    changed_.notify_all();
    while (running_ || waiters_ > 0) changed_.wait(mutex_);
    worker.swap(worker_);
  }
  if (worker.joinable()) worker.join();
}

Pending SerialQueue::start(std::function<void()> action,
                           std::shared_ptr<transport::Handover> handover, Runner runner) {
  Pending pending;
  pending.handover_ = std::move(handover);
  pending.state_ = std::make_shared<Pending::State>();
  pending.queue_ = this;
  {
    const MutexLock lock(mutex_);
    waiting_.push_back({std::move(action), pending.state_, runner});
    if (runner == Runner::waiter) return pending;
    ++for_thread_;
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
  const MutexLock lock(mutex_);
  while (true) {
    while (!stopping_ && (for_thread_ == 0 || running_)) changed_.wait(mutex_);
    if (stopping_) return;
    run_first();
  }
}

void SerialQueue::run_until(Pending::State& state) {
  const auto has_ended = [&] {
    const MutexLock lock(state.mutex);
    return state.done;
  };
  const MutexLock lock(mutex_);
  ++waiters_;
  while (!has_ended())
    if (running_)
      changed_.wait(mutex_);
    else
      run_first();
  if (--waiters_ == 0 && stopping_) changed_.notify_all();
}

void SerialQueue::run_first() {
  Waiting next = std::move(waiting_.front());
  waiting_.pop_front();
  if (next.runner == Runner::own_thread) --for_thread_;
  running_ = true;
  mutex_.unlock();
  std::exception_ptr error;
  const Stopwatch stopwatch;
  try {
    next.action();
  } catch (...) {
    error = std::current_exception();
  }
  const double seconds = stopwatch.seconds();
  next.action = nullptr;  // what it holds is freed before anyone is told that it has ended
  finish(next, error, seconds);
  mutex_.lock();
  running_ = false;
  changed_.notify_all();
}

void SerialQueue::finish(const Waiting& waiting, std::exception_ptr error, double seconds) {
  Pending::State& state = *waiting.state;
  const MutexLock lock(state.mutex);
  state.done = true;
  state.error = std::move(error);
  state.seconds = seconds;
}

}  // namespace lockstep::collective
