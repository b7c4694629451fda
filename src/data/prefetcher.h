#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/loader.h"

namespace lockstep::data {

struct Position {
  int64_t epoch = 0;
  int64_t index = 0;  ///< of the batch in the epoch
};

/// A batch and the memory it lies in.
struct BatchBuffer {
  std::vector<int64_t> samples;
  std::vector<float> values;
  std::vector<int64_t> labels;
  Batch batch;
};

/// Keeps buffers filled ahead of their reader, in a thread of its own. A buffer goes from `free_`
/// to the thread, to `ready_`, to the reader (`held_`) and back to `free_`: it is in one place at a
/// time, so the thread never writes what the reader reads. Fills happen one at a time, in order.
class Prefetcher {
 public:
  using Fill = std::function<void(Position, BatchBuffer&)>;

  Prefetcher(std::vector<BatchBuffer> buffers, int64_t batches_per_epoch, Fill fill);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Makes `position` the next one; the batch in use stays valid.
  void seek(Position position);

  /// Waits for the next batch and gives the one before back. Rethrows what `fill` threw, once the
  /// batches before it are used up.
  const Batch& next();

 private:
  void run();
  Position take_position();

  // Constant after construction.
  const int64_t batches_per_epoch_;
  const Fill fill_;

  // Each belongs to whoever has taken its number out of `free_` or `ready_`.
  std::vector<BatchBuffer> buffers_;

  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable freed_;    // `free_` gained a buffer, or `stop_` was set
  std::condition_variable readied_;  // `ready_` gained a buffer, or `error_` was set
  std::vector<size_t> free_;
  std::vector<size_t> ready_;  // the oldest first
  std::optional<size_t> held_;
  Position position_;   // of the next fill
  uint64_t seeks_ = 0;  // a fill begun before the latest seek is thrown away
  bool stop_ = false;
  std::exception_ptr error_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::data
