#include "train/checkpoint_writer.h"

#include <utility>

#include "base/clock.h"

namespace lockstep::train {

CheckpointWriter::CheckpointWriter(Checkpoints checkpoints)
    : checkpoints_(std::move(checkpoints)), thread_([this] { work(); }) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Safetensors& CheckpointWriter::begin() {
  finish();
  throw_if_failed();
  return state_;
}

void CheckpointWriter::write(int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    step_ = step;
    under_way_ = true;
  }
  changed_.notify_all();
}

std::vector<CheckpointWriter::Written> CheckpointWriter::take_written() {
  throw_if_failed();
  const std::lock_guard lock(mutex_);
  return std::exchange(written_, {});
}

void CheckpointWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !under_way_; });
}

void CheckpointWriter::throw_if_failed() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return under_way_ || ends_; });
    if (!under_way_) return;
    const int64_t step = step_;
    lock.unlock();
    const Stopwatch stopwatch;
    std::filesystem::path path;
    std::exception_ptr error;
    try {
      path = checkpoints_.save(state_, step);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error)
      error_ = error;
    else
      written_.push_back({step, path, stopwatch.seconds()});
    under_way_ = false;
    changed_.notify_all();
  }
}

}  // namespace lockstep::train
