#include "collective/lane.h"

#include <utility>

#include "base/clock.h"
#include "lockstep/error.h"

namespace lockstep::collective {

void Pending::wait() const {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
  if (state_->error) std::rethrow_exception(state_->error);
}

bool Pending::done() const {
  if (!state_) return true;
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

double Pending::seconds() const {
  if (!state_) return 0;
  const std::lock_guard lock(state_->mutex);
  return state_->seconds;
}

Lane::~Lane() {
  std::deque<Job> abandoned;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    abandoned.swap(jobs_);
  }
  changed_.notify_all();
  for (const Job& job : abandoned)
    finish(job, std::make_exception_ptr(Error("the communicator was closed before this began")));
  if (worker_.joinable()) worker_.join();
}

Pending Lane::start(std::function<void()> task) {
  Pending pending;
  pending.state_ = std::make_shared<Pending::State>();
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({std::move(task), pending.state_});
    if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
  }
  changed_.notify_all();
  return pending;
}

bool Lane::busy() {
  const std::lock_guard lock(mutex_);
  return occupied_ || !jobs_.empty();
}

bool Lane::enter_if_idle() {
  const std::lock_guard lock(mutex_);
  if (occupied_ || !jobs_.empty()) return false;
  return occupied_ = true;
}

void Lane::leave() {
  bool awaited = false;
  {
    const std::lock_guard lock(mutex_);
    occupied_ = false;
    awaited = !jobs_.empty();
  }
  if (awaited) changed_.notify_all();
}

void Lane::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || (!jobs_.empty() && !occupied_); });
    if (stopping_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    occupied_ = true;
    lock.unlock();
    std::exception_ptr error;
    const Stopwatch stopwatch;
    try {
      job.task();
    } catch (...) {
      error = std::current_exception();
    }
    const double seconds = stopwatch.seconds();
    lock.lock();
    occupied_ = false;
    lock.unlock();
    finish(job, error, seconds);
    lock.lock();
  }
}

void Lane::finish(const Job& job, std::exception_ptr error, double seconds) {
  {
    const std::lock_guard lock(job.state->mutex);
    job.state->done = true;
    job.state->error = std::move(error);
    job.state->seconds = seconds;
  }
  job.state->changed.notify_all();
}

}  // namespace lockstep::collective
