#pragma once

#include <filesystem>

#include "recipe/recipe.h"

namespace lockstep::run {

/// The folder of one run: `recipe.toml` as used, `events.jsonl`, `checkpoints/` and, at the end,
/// `model.safetensors`; with checkpoint.keep = "best" also `best.safetensors`. Holds a lock, so
/// that no other process writes the run.
class RunFolder {
 public:
  /// A new run. Throws BadInput if the folder contains a run already.
  static RunFolder create(std::filesystem::path path, const Recipe& recipe);

  /// How long to wait for another process that holds the lock: the workers of a launcher that was
  /// killed need a moment to end.
  static constexpr double kLockSeconds = 5;

  /// A run to resume. Throws BadInput if there is none, or if another process is still writing it
  /// after `lock_seconds`, with that process.
  static RunFolder open(std::filesystem::path path, double lock_seconds = kLockSeconds);

  /// Replaces the run's recipe.
  void keep(const Recipe& recipe) const;

  ~RunFolder();
  RunFolder(RunFolder&& other) noexcept;
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Whether the run is resumed.
  bool goes_on() const { return goes_on_; }
  std::filesystem::path recipe() const { return path_ / "recipe.toml"; }
  std::filesystem::path events() const { return path_ / "events.jsonl"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path weights() const { return path_ / "model.safetensors"; }
  std::filesystem::path best_weights() const { return path_ / "best.safetensors"; }

 private:
  RunFolder(std::filesystem::path path, double lock_seconds);
  void remove_leftovers() const;

  std::filesystem::path path_;
  int lock_ = -1;
  bool goes_on_ = false;
};

/// Creates "runs/fashion-convnet-3", with the first free number; no other process can get the same
/// folder.
std::filesystem::path claim_run_folder(const std::filesystem::path& parent,
                                       const std::string& name);

/// What is left of a run that failed.
enum class Remains { nothing, no_checkpoint, checkpoint };

/// Adds a `failure` event to the run in `out`, unless it has ended or was stopped, or another
/// process is writing it. Returns whether there is a checkpoint to resume from; `nothing` for a run
/// that is finished, stopped or not this process's. Called by the launcher when workers have
/// failed.
Remains record_failure(const std::filesystem::path& out, const std::string& message) noexcept;

}  // namespace lockstep::run
