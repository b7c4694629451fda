#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "run/checkpoints.h"
#include "run/events.h"
#include "run/outcome.h"
#include "run/run_folder.h"
#include "run/safetensors.h"
#include "train/evaluate.h"
#include "train/reporter.h"
#include "train/setup.h"
#include "train/state.h"
#include "train/step.h"
#include "train/trainer.h"

namespace lockstep::train {

/// A run, or one generation of an elastic run.
class TrainingRun {
 public:
  /// `memory` is the state that this worker has from an earlier generation, if any.
  TrainingRun(Setup& setup, const run::RunFolder* folder, run::EventLog& events,
              const Circumstances& circumstances, const run::Safetensors* memory);

  run::Outcome to_its_end(const Trainer::Limits& limits);

  /// Captures the state after the last finished step; an unfinished step is rolled back.
  void remember(run::Safetensors& into);

  /// Tells the workers that wait for this one why it does not go on.
  void abort(const std::string& why) const;

 private:
  void take_up(const run::Safetensors* memory);
  void load_checkpoint();
  void find_best_weights(const std::vector<run::TensorView>& weights);
  void take_state_of(int donor);
  void take_parts_of(run::Safetensors checkpoint);
  void train_one_step();
  void settle();
  void evaluate_model();
  Evaluation evaluated_on(const std::shared_ptr<const Dataset>& split);
  EvaluatedModel evaluated_model() const;
  int64_t evaluated_at_once() const;
  void note_best();
  std::string write_weights(std::filesystem::path (run::RunFolder::*file)() const);
  bool patience_is_over() const;
  void warn_of_untrained();
  void report_stragglers();
  void save_checkpoint();
  void report_checkpoints();
  void await_checkpoints();
  void finish_checkpoints();
  run::Metadata about_the_model() const;
  run::Outcome stop();
  run::Outcome regroup();
  run::Outcome end();

  // Constant after construction.
  Setup& setup_;
  const Recipe& recipe_;
  const run::RunFolder* const folder_;  ///< rank 0's; nothing on other ranks
  std::optional<run::Checkpoints> checkpoints_;
  std::optional<run::CheckpointWriter> writer_;

  // Changes with every step.
  Step step_;
  Reporter reporter_;
  run::Safetensors loaded_;  ///< the checkpoint, on rank 0, until stages have taken what they train
  ResumePoint point_;
  Evaluation evaluated_;  ///< the last one, of the validation split or else the test split
  Stopwatch since_clocked_;
  int64_t last_checkpoint_step_ = -1;
  StragglerReport all_stragglers_;  ///< since this process started or resumed the run
  Stopwatch since_begun_;
  Stopwatch since_stragglers_;
};

}  // namespace lockstep::train
