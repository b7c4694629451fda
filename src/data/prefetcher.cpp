#include "data/prefetcher.h"

#include <utility>

namespace lockstep::data {

Prefetcher::Prefetcher(std::vector<BatchBuffer> buffers, int64_t batches_per_epoch, Fill fill,
                       Deliver deliver)
    : batches_per_epoch_(batches_per_epoch),
      fill_(std::move(fill)),
      deliver_(std::move(deliver)),
      buffers_(std::move(buffers)) {
  for (std::vector<size_t>* numbers : {&free_, &filled_, &ready_})
    numbers->reserve(buffers_.size());
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
    for (std::vector<size_t>* numbers : {&filled_, &ready_}) {
      free_.insert(free_.end(), numbers->begin(), numbers->end());
      numbers->clear();
    }
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
  freed_.notify_one();
  return buffers_[*held_].batch;
}

BatchPosition Prefetcher::take_position() {
  const BatchPosition taken = position_;
  if (++position_.index == batches_per_epoch_) position_ = {taken.epoch + 1, 0};
  return taken;
}

bool Prefetcher::may_deliver() const {
  return !filled_.empty() && ready_.empty();
}

// Delivering comes before filling, since the reader may wait for it.
Prefetcher::Work Prefetcher::take_work() {
  if (may_deliver()) {
    const size_t buffer = filled_.front();
    filled_.erase(filled_.begin());
    buffers_[buffer].batch.place = held_ ? 1 - buffers_[*held_].batch.place : 0;
    return {Work::Kind::deliver, buffer};
  }
  const size_t buffer = free_.back();
  free_.pop_back();
  return {Work::Kind::fill, buffer, take_position()};
}

void Prefetcher::perform(const Work& work) {
  if (work.kind == Work::Kind::deliver)
    deliver_(buffers_[work.buffer].batch);
  else
    fill_(work.position, buffers_[work.buffer]);
}

void Prefetcher::put_away(const Work& done) {
  const bool is_ready = done.kind == Work::Kind::deliver || !deliver_;
  (is_ready ? ready_ : filled_).push_back(done.buffer);
  if (is_ready) readied_.notify_one();
}

void Prefetcher::run() {
  std::exception_ptr error;  // of the batch after those that are filled
  MutexLock lock(mutex_);
  while (true) {
    while (!stop_ && !may_deliver() && (error != nullptr ? !filled_.empty() : free_.empty()))
      freed_.wait(mutex_);
    if (stop_) return;
    if (error != nullptr && filled_.empty()) break;
    const uint64_t seeks = seeks_;
    const Work work = take_work();
    lock.unlock();
    bool failed = false;
    try {
      perform(work);
    } catch (...) {
      error = std::current_exception();
      failed = true;
    }
    lock.lock();
    if (failed && work.kind == Work::Kind::deliver) break;
    if (failed) continue;
    if (seeks != seeks_)
      free_.push_back(work.buffer);
    else
      put_away(work);
  }
  error_ = error;
  readied_.notify_one();
}

}  // namespace lockstep::data
