#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_annotations.h"
#include "run/safetensors.h"

namespace lockstep::run {

/// The folder of a run's checkpoints: `step-00001200.safetensors` and the one before it.
class Checkpoints {
 public:
  explicit Checkpoints(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Writes what was captured at `step`, then removes all but the newest two. Throws BadInput when
  /// the disk is full; the ones before stay valid.
  std::filesystem::path save(const Safetensors& state, int64_t step) const;

  struct Found {
    std::filesystem::path path;
    Safetensors state;
    std::vector<std::string> warnings;  ///< newer files that are torn
  };

  /// The newest whole one; nothing when there is none at all. Throws BadInput when none is whole.
  std::optional<Found> newest() const;

 private:
  std::vector<std::filesystem::path> newest_first() const;
  /// What a killed process was writing.
  void remove_leftovers() const;

  std::filesystem::path folder_;
};

/// Writes checkpoints in a thread of its own, so that a step waits for a copy in memory and not for
/// the disk. One is under way at a time: `begin` waits for it.
///
///     capture(..., writer.begin());
///     writer.write(step);
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
  Safetensors& begin() EXCLUDES(mutex_);
  /// Starts to write what was captured.
  void write(int64_t step) EXCLUDES(mutex_);
  /// Those that are on the disk and were not taken yet. Throws what the last one threw.
  std::vector<Written> take_written() EXCLUDES(mutex_);
  /// Returns when nothing is under way.
  void finish() EXCLUDES(mutex_);

 private:
  void work() EXCLUDES(mutex_);
  void throw_if_failed() EXCLUDES(mutex_);

  const Checkpoints checkpoints_;

  // The thread's while a write is under way, else the caller's.
  Safetensors state_;

  Mutex mutex_;
  Condition changed_;
  int64_t step_ GUARDED_BY(mutex_) = 0;
  bool under_way_ GUARDED_BY(mutex_) = false;
  bool ends_ GUARDED_BY(mutex_) = false;
  std::vector<Written> written_ GUARDED_BY(mutex_);
  std::exception_ptr error_ GUARDED_BY(mutex_);

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::run
