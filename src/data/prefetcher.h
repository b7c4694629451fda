#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "base/thread_annotations.h"
#include "data/loader.h"

namespace lockstep::data {

struct BatchPosition {
  int64_t epoch = 0;
  int64_t index = 0;  ///< of the batch in the epoch
};

/// A batch and its memory.
struct BatchBuffer {
  std::vector<int64_t> samples = {};
  std::vector<int64_t> items = {};
  std::vector<std::vector<std::byte>> fields = {};
  LoadedBatch batch = {};
};

/// Fills buffers ahead of their reader, in a separate thread. A buffer goes from `free_` to the
/// thread, to `ready_`, to the reader (`held_`) and back to `free_`. Its number is in one of them
/// at a time, so that the thread never writes what the reader reads. Buffers are filled one at a
/// time, in order. With a Deliver, a filled one goes to `filled_` first, and is delivered when none
/// is ready.
class Prefetcher {
 public:
  using Fill = std::function<void(BatchPosition, BatchBuffer&)>;

  Prefetcher(std::vector<BatchBuffer> buffers, int64_t batches_per_epoch, Fill fill,
             Deliver deliver = {});
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Makes `position` that of the next batch; the batch in use stays valid.
  void seek(BatchPosition position) EXCLUDES(mutex_);

  /// Releases the previous batch and waits for the next one. Rethrows what `fill` or `deliver`
  /// threw, after the batches before it.
  const LoadedBatch& next() EXCLUDES(mutex_);

 private:
  void run() EXCLUDES(mutex_);
  BatchPosition take_position() REQUIRES(mutex_);
  bool may_deliver() const REQUIRES(mutex_);
  struct Work {
    enum class Kind { fill, deliver } kind;
    size_t buffer;
    BatchPosition position = {};  ///< of what is filled
  };
  Work take_work() REQUIRES(mutex_);
  void put_away(const Work& done) REQUIRES(mutex_);
  void perform(const Work& work);

  // Constant after construction.
  const int64_t batches_per_epoch_;
  const Fill fill_;
  const Deliver deliver_;

  // Each belongs to the thread or the reader that has taken its number out of `free_` or `ready_`.
  std::vector<BatchBuffer> buffers_;

  Mutex mutex_;
  Condition freed_;    // `free_` gained a buffer, `ready_` lost one, or `stop_` was set
  Condition readied_;  // `ready_` gained a buffer, or `error_` was set
  std::vector<size_t> free_ GUARDED_BY(mutex_);
  std::vector<size_t> filled_ GUARDED_BY(mutex_);  // to be delivered; the oldest first
  std::vector<size_t> ready_ GUARDED_BY(mutex_);   // the oldest first
  std::optional<size_t> held_ GUARDED_BY(mutex_);
  BatchPosition position_ GUARDED_BY(mutex_);  // of the next fill
  uint64_t seeks_ GUARDED_BY(mutex_) = 0;      // a fill begun before the latest seek is discarded
  bool stop_ GUARDED_BY(mutex_) = false;
  std::exception_ptr error_ GUARDED_BY(mutex_);

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::data
