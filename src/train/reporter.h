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

/// Writes a run's events, from `start` to `end`; docs/events.md describes them.
class Reporter {
 public:
  /// `folder` is nullptr on ranks other than 0, whose events are discarded. `training` has the
  /// metrics of training steps.
  Reporter(const Setup& setup, const objective::Scorecard& training, const run::RunFolder* folder,
           run::EventLog& events, const Circumstances& circumstances);

  /// Writes `start`, except in later generations of an elastic run.
  void start(int64_t parameters);
  void warn(const std::string& message);
  /// `before` is the start event of the run before it was stopped.
  void resume(int64_t step, const std::string& checkpoint, const run::Json& before);
  /// In later generations of an elastic run: writes `workers`, with the step it continues from.
  void go_on(int64_t step);

  /// Writes digests of all tensors if they are due after `step` steps.
  void digest(int64_t step);
  /// Writes the events that are due after a step.
  void step(const ResumePoint& point, const objective::Totals& totals, double learning_rate);

  void evaluate(int64_t step);
  /// `evaluation` is of the validation split or, if there is none, of the test split.
  void epoch(const ResumePoint& point, const Evaluation& evaluation);
  /// The report is of the last `seconds`.
  void stragglers(int64_t step, const StragglerReport& report, double seconds);
  void checkpoint(const run::CheckpointWriter::Written& written);

  run::Json stopped(int64_t step);
  struct Results {
    std::string model_sha256;
    const Evaluation& of_epoch;             ///< as passed to `epoch`
    const std::optional<Evaluation>& test;  ///< nothing if that is of the test split
  };
  /// Collective: adds up the bytes that all workers sent. `report` is of the last `seconds`, in
  /// which this generation ran.
  run::Json end(const ResumePoint& point, const Results& last, const StragglerReport& report,
                double seconds);

 private:
  void warn_of_circumstances();
  void warn_of_other_processor(const run::Json& before);
  void write_kernels();
  void write_tables(int64_t step, const std::string& split, const Evaluation& evaluation);
  void write_step(const ResumePoint& point, const objective::Totals& totals, double learning_rate);
  run::Json figures(const ResumePoint& point, const Evaluation& evaluation) const;
  run::Json best(const ResumePoint& point) const;
  /// The split that is evaluated after an epoch.
  std::string split() const { return setup_.has_validation() ? "validation" : "test"; }
  double epochs_until(int64_t step) const;
  std::string out() const { return folder_ == nullptr ? "" : folder_->path().string(); }
  bool has_share_in_events() const;

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

/// The worst straggler, in a sentence; nothing if the others waited for less than 1 % of `seconds`,
/// the time of the report's steps.
std::optional<std::string> noticeable_waiting(const StragglerReport& report, double seconds);

/// The report over the steps of both.
StragglerReport joined(StragglerReport first, const StragglerReport& second);

}  // namespace lockstep::train
