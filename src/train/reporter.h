#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "lockstep/ddp.h"
#include "observe/events.h"
#include "train/checkpoint_writer.h"
#include "train/setup.h"
#include "train/trainer.h"

namespace lockstep::train {

/// What a run tells of itself: its events, from `start` to `end`. docs/events.md says what is in
/// each.
class Story {
 public:
  /// `folder` is rank 0's; nothing on other ranks, whose events go nowhere.
  Story(const Setup& setup, const RunFolder* folder, observe::EventLog& events,
        const Circumstances& circumstances);

  /// That it begins; or, where workers of a run that goes on have met anew, who they are now.
  void start(int64_t parameters);
  void warn(const std::string& message);
  void resume(int64_t step, const std::string& checkpoint, int64_t workers_before);
  /// Workers go on from what one of them has in memory.
  void go_on(int64_t step);

  /// Digests of all tensors, where they are due after `step` steps.
  void digest(int64_t step);
  /// Whatever is due after a step.
  void step(const Position& position, const Totals& totals, double learning_rate);

  void evaluate(int64_t step);
  void epoch(const Position& position, const Totals& test);
  /// Over the last `seconds`.
  void stragglers(int64_t step, const StragglerReport& report, double seconds);
  void checkpoint(const CheckpointWriter::Written& written);

  observe::Json stopped(int64_t step);
  /// Collective: counts what all workers sent. `report` is of this process's `seconds`.
  observe::Json end(const Position& position, const Totals& test, const StragglerReport& report,
                    double seconds);

 private:
  void tell_circumstances();
  void tell_kernels();
  void tell_step(const Position& position, const Totals& totals, double learning_rate);
  std::string out() const { return folder_ == nullptr ? "" : folder_->path().string(); }
  observe::Json bytes_sent() const;
  observe::Json bytes_sent_by_all() const;

  const Setup& setup_;
  const Recipe& recipe_;
  const RunFolder* const folder_;
  observe::EventLog& events_;
  const Circumstances& circumstances_;

  bool kernels_told_;
  Stopwatch since_told_;
};

}  // namespace lockstep::train
