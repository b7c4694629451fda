#include "data/prefetcher.h"

#include <utility>

namespace lockstep::data {

Prefetcher::Prefetcher(std::vector<BatchBuffer> buffers, int64_t batches_per_epoch, Fill fill)
    : batches_per_epoch_(batches_per_epoch), fill_(std::move(fill)), buffers_(std::move(buffers)) {
  free_.reserve(buffers_.size());
  ready_.reserve(buffers_.size());
  for (size_t i = 0; i < buffers_.size(); ++i) free_.push_back(i);
  thread_ = std::thread([this] { run(); });
}

Prefetcher::~Prefetcher() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  freed_.notify_one();
  thread_.join();
}

void Prefetcher::seek(BatchPosition position) {
  {
    const MutexLock lock(mutex_);
    position_ = position;
    ++seeks_;
    free_.insert(free_.end(), ready_.begin(), ready_.end());
    ready_.clear();
  }
  freed_.notify_one();
}

const LoadedBatch& Prefetcher::next() {
  const MutexLock lock(mutex_);
  if (held_) {
    free_.push_back(*held_);
    held_.reset();
    freed_.notify_one();
  }
  while (ready_.empty() && error_ == nullptr) readied_.wait(mutex_);
  if (ready_.empty()) std::rethrow_exception(error_);
  held_ = ready_.front();
  ready_.erase(ready_.begin());
  return buffers_[*held_].batch;
}

BatchPosition Prefetcher::take_position() {
  const BatchPosition taken = position_;
  if (++position_.index == batches_per_epoch_) position_ = {taken.epoch + 1, 0};
  return taken;
}

void Prefetcher::run() {
  MutexLock lock(mutex_);
  while (true) {
    while (!stop_ && free_.empty()) freed_.wait(mutex_);
    if (stop_) return;
    const size_t buffer = free_.back();
    free_.pop_back();
    const uint64_t seeks = seeks_;
    const BatchPosition position = take_position();
    lock.unlock();
    std::exception_ptr error;
    try {
      fill_(position, buffers_[buffer]);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error != nullptr) {
      error_ = error;
      readied_.notify_one();
      return;
    }
    (seeks == seeks_ ? ready_ : free_).push_back(buffer);
    readied_.notify_one();
  }
}

}  // namespace lockstep::data
