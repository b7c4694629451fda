#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "lockstep/ddp.h"
#include "run/checkpoints.h"
#include "run/events.h"
#include "train/evaluate.h"
#include "train/setup.h"
#include "train/state.h"
#include "train/trainer.h"

namespace lockstep::train {

/// Writes a run's events, from `start` to `end`. docs/events.md says what is in each.
class Reporter {
 public:
  /// `folder` is rank 0's; nothing on other ranks, whose events go nowhere. `training` has the
  /// metrics of training steps.
  Reporter(const Setup& setup, const objective::Scorecard& training, const run::RunFolder* folder,
           run::EventLog& events, const Circumstances& circumstances);

  /// That it begins; nothing where workers of a run that goes on have met anew.
  void start(int64_t parameters);
  void warn(const std::string& message);
  void resume(int64_t step, const std::string& checkpoint, int64_t workers_before);
  /// Where workers have met anew: who they are now, and from which step they go on.
  void go_on(int64_t step);

  /// Digests of all tensors, where they are due after `step` steps.
  void digest(int64_t step);
  /// Whatever is due after a step.
  void step(const ResumePoint& point, const objective::Totals& totals, double learning_rate);

  void evaluate(int64_t step);
  void epoch(const ResumePoint& point, const Evaluation& test);
  /// Over the last `seconds`.
  void stragglers(int64_t step, const StragglerReport& report, double seconds);
  void checkpoint(const run::CheckpointWriter::Written& written);

  run::Json stopped(int64_t step);
  /// Collective: counts what all workers sent. `report` is of this process's `seconds`.
  run::Json end(const ResumePoint& point, const Evaluation& test, const StragglerReport& report,
                double seconds);

 private:
  void warn_of_circumstances();
  void write_kernels();
  void write_tables(int64_t step, const Evaluation& test);
  void write_step(const ResumePoint& point, const objective::Totals& totals, double learning_rate);
  run::Json figures(const ResumePoint& point, const Evaluation& test) const;
  std::string out() const { return folder_ == nullptr ? "" : folder_->path().string(); }
  run::Json bytes_sent() const;
  run::Json bytes_sent_by_all() const;

  const Setup& setup_;
  const Recipe& recipe_;
  const objective::Scorecard& training_;
  const run::RunFolder* const folder_;
  run::EventLog& events_;
  const Circumstances& circumstances_;

  bool kernels_written_;
  bool large_tables_mentioned_ = false;
  Stopwatch since_step_;
};

/// Who made the others wait most, in a sentence; nothing where that was less than a hundredth of
/// `seconds`, in which the report's steps were done.
std::optional<std::string> noticeable_waiting(const StragglerReport& report, double seconds);

/// The report on the steps of both.
StragglerReport joined(StragglerReport first, const StragglerReport& second);

}  // namespace lockstep::train
