#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/training_data.h"
#include "lockstep/world.h"
#include "recipe/recipe.h"
#include "run/events.h"
#include "run/outcome.h"
#include "run/run_folder.h"
#include "run/safetensors.h"

namespace lockstep::train {

struct Setup;

/// What a run's events say of its surroundings, of which the trainer knows nothing.
struct Circumstances {
  run::Json workers = run::Json::object();  ///< goes into the "start" event
  std::vector<std::string> warnings = {};   ///< told after it
  bool goes_on = false;  ///< it began among other workers, and needs no "start" event
};

/// Carries a recipe out in a run's folder, telling everything as events.
///
///     Trainer trainer(recipe, world, data::load_training_data(recipe.data, ...));
///     RunFolder folder = RunFolder::create("runs/mine", recipe);      // on rank 0
///     EventLog events(folder.events());
///     Outcome outcome = trainer.run(&folder, events, {});
class Trainer {
 public:
  /// Makes the model ready: everything that can be wrong with a recipe is found here, before a
  /// run's folder is touched. Collective. Throws BadInput; Mismatch where workers do not have the
  /// same recipe or data.
  Trainer(Recipe recipe, World world, std::shared_ptr<const data::TrainingData> data);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// How the objective's figures are to be shown: {"accuracy": "percent"}.
  run::Json shown_metrics() const;

  struct Limits {
    /// Set (by a signal handler, say) to end after the step under way, with a checkpoint.
    const std::atomic<bool>* stop = nullptr;
    /// End with a checkpoint once this many steps are done.
    int64_t stop_at_step = std::numeric_limits<int64_t>::max();
    /// Set to end after the step under way without a checkpoint, so that workers can meet anew.
    const std::atomic<bool>* regroup = nullptr;
    /// Is set to how many steps are done.
    std::atomic<int64_t>* steps_done = nullptr;
  };

  /// Goes on from the folder's newest checkpoint, if it has one, to the recipe's end, or until one
  /// of the limits. Throws BadInput when the checkpoint is for another model, Error when the loss
  /// is no longer a number. Only rank 0 has a folder. Call once. Collective.
  ///
  /// Who gives a `memory` finds in it, if this does not come to the run's end or throws, what it
  /// takes to go on among other workers: as it was after the last whole step. A memory that is not
  /// empty comes before any checkpoint, whichever worker has it.
  run::Outcome run(const run::RunFolder* folder, run::EventLog& events, const Limits& limits,
                   const Circumstances& circumstances = {},
                   std::optional<run::Safetensors>* memory = nullptr);

 private:
  std::unique_ptr<Setup> setup_;
};

}  // namespace lockstep::train
