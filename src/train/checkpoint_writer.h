#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "train/checkpoint.h"

namespace lockstep::train {

/// Writes checkpoints in a thread of its own, so that a step waits for a copy in memory and not for
/// the disk. One is under way at a time; whoever comes with the next waits for it.
///
///     capture(model, step, position, writer.begin());
///     writer.write(position.step);
///     ...
///     for (const auto& [step, path, seconds] : writer.take_written()) ...
class CheckpointWriter {
 public:
  explicit CheckpointWriter(Checkpoints checkpoints);
  /// Ends what is under way.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  struct Written {
    int64_t step;
    std::filesystem::path path;
    double seconds;
  };

  /// Memory to capture a state in, once nothing is under way. Throws what the last one threw.
  Safetensors& begin();
  /// Starts to write what was captured.
  void write(int64_t step);
  /// Those that are on the disk and were not taken yet. Throws what the last one threw.
  std::vector<Written> take_written();
  /// Returns when nothing is under way.
  void finish();

 private:
  void work();
  void throw_if_failed();

  const Checkpoints checkpoints_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_; the state itself is the thread's while one is under way.
  Safetensors state_;
  int64_t step_ = 0;
  bool under_way_ = false;
  bool ends_ = false;
  std::vector<Written> written_;
  std::exception_ptr error_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::train
