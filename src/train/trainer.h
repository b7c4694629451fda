#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>

#include "base/clock.h"
#include "observe/events.h"
#include "recipe/recipe.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"
#include "train/setup.h"
#include "train/step.h"

namespace lockstep::train {

/// Carries a recipe out in a run folder, telling everything as events.
///
///     Setup setup(recipe);
///     RunFolder run = RunFolder::create("runs/mine", recipe);
///     EventLog events(run.events());
///     Json end = Trainer(setup, run, events).run({});
class Trainer {
 public:
  /// Loads the run's newest checkpoint, if there is one. Throws BadInput when it is for another
  /// model.
  Trainer(Setup& setup, const RunFolder& run, observe::EventLog& events);

  struct Limits {
    /// Set (by a signal handler, say) to end after the step under way, with a checkpoint.
    const std::atomic<bool>* stop = nullptr;
    /// End with a checkpoint once this many steps are done.
    int64_t stop_at_step = std::numeric_limits<int64_t>::max();
  };

  /// Trains to the recipe's end and returns the "end" event, or the "stopped" event when a limit
  /// ended it. Throws Error when the loss is no longer a number.
  observe::Json run(Limits limits);

 private:
  void resume_from_checkpoint();
  void announce();
  void train_one_step();
  void check_finite(const Totals& totals) const;
  void tell_step(const Totals& totals);
  void end_epoch();
  void save_checkpoint();
  observe::Json end_event() const;

  int64_t epoch() const { return position_.step / setup_.steps_per_epoch; }
  double samples_per_second() const;

  // Constant after construction.
  Setup& setup_;
  const Recipe& recipe_;
  const RunFolder& run_;
  observe::EventLog& events_;
  Checkpoints checkpoints_;

  // Moves on with every step.
  Step step_;
  Position position_;
  Totals test_;
  observe::SpanTimes spans_;
  Stopwatch stopwatch_;
  Stopwatch since_told_;
  double stepping_seconds_ = 0;
  int64_t samples_here_ = 0;
  int64_t last_checkpoint_step_ = -1;
  double seconds_before_ = 0;
};

}  // namespace lockstep::train
