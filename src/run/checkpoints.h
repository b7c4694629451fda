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

/// The folder of a run's checkpoints: `step-00001200.safetensors` and some before it.
class Checkpoints {
 public:
  /// The `kept` newest ones are kept.
  explicit Checkpoints(std::filesystem::path folder, int64_t kept = 2)
      : folder_(std::move(folder)), kept_(kept) {}

  /// Writes the state captured at `step`, then removes those that are not kept. Throws BadInput if
  /// the disk is full; earlier checkpoints stay valid.
  std::filesystem::path save(const Safetensors& state, int64_t step) const;

  struct Found {
    std::filesystem::path path;
    Safetensors state;
    std::vector<std::string> warnings;  ///< newer files that are damaged
  };

  /// The newest valid checkpoint; nothing if there is no file at all. Throws BadInput if all files
  /// are damaged.
  std::optional<Found> newest() const;

 private:
  std::vector<std::filesystem::path> newest_first() const;
  /// Removes temporary files of killed processes.
  void remove_leftovers() const;

  std::filesystem::path folder_;
  int64_t kept_;
};

/// Writes checkpoints in a separate thread, so that a step waits for a copy in memory and not for
/// the disk. One is written at a time: `begin` waits for it.
///
///     capture(..., writer.begin());
///     writer.write(step);
///     ...
///     for (const auto& [step, path, seconds] : writer.take_written()) ...
class CheckpointWriter {
 public:
  explicit CheckpointWriter(Checkpoints checkpoints);
  /// Finishes the write in progress.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  struct Written {
    int64_t step;
    std::filesystem::path path;
    double seconds;
  };

  /// Waits for the write in progress and returns memory to capture a state in. Throws what the last
  /// write threw.
  Safetensors& begin() EXCLUDES(mutex_);
  /// Starts to write the captured state.
  void write(int64_t step) EXCLUDES(mutex_);
  /// Finished writes that were not returned before. Throws what the last write threw.
  std::vector<Written> take_written() EXCLUDES(mutex_);
  /// Waits until no write is in progress.
  void finish() EXCLUDES(mutex_);

 private:
  void work() EXCLUDES(mutex_);
  void throw_if_failed() EXCLUDES(mutex_);

  const Checkpoints checkpoints_;

  // Used by the thread while a write is in progress, else by the caller.
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
