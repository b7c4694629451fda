#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/world.h"
#include "observe/events.h"
#include "recipe/recipe.h"
#include "train/run_folder.h"
#include "train/safetensors.h"
#include "train/training_data.h"

namespace lockstep::train {

struct Setup;

/// What a run tells of its surroundings, which it knows nothing of.
struct Circumstances {
  observe::Json workers = observe::Json::object();  ///< goes into the "start" event
  std::vector<std::string> warnings = {};           ///< told after it
  bool goes_on = false;  ///< it began among other workers, and needs no "start" event
};

/// Carries a recipe out in a run's folder, telling everything as events.
///
///     Trainer trainer(recipe, world, load_training_data(recipe));
///     RunFolder run = RunFolder::create("runs/mine", recipe);      // on rank 0
///     EventLog events(run.events());
///     Json end = trainer.run(&run, events, {});
class Trainer {
 public:
  /// Makes the model ready: everything that can be wrong with a recipe is found here, before a
  /// run's folder is touched. Collective. Throws BadInput; Mismatch where workers do not have the
  /// same recipe or data.
  Trainer(Recipe recipe, World world, std::shared_ptr<const TrainingData> data);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  struct Limits {
    /// Set (by a signal handler, say) to end after the step under way, with a checkpoint.
    const std::atomic<bool>* stop = nullptr;
    /// End with a checkpoint once this many steps are done.
    int64_t stop_at_step = std::numeric_limits<int64_t>::max();
    /// Set to end after the step under way without a checkpoint, so that workers can meet anew.
    const std::atomic<bool>* regroup = nullptr;
    /// Hears how many steps are done.
    std::function<void(int64_t step)> after_step = nullptr;
  };

  /// Goes on from the folder's newest checkpoint, if it has one, to the recipe's end. Returns the
  /// "end" event, or the "stopped" or "regroup" event when a limit ended it. Throws BadInput when
  /// the checkpoint is for another model, Error when the loss is no longer a number. Only rank 0
  /// has a folder. Call once. Collective.
  ///
  /// Who gives a `memory` finds in it, if this does not come to the run's end or throws, what it
  /// takes to go on among other workers: as it was after the last whole step. A memory that is not
  /// empty comes before any checkpoint, whichever worker has it.
  observe::Json run(const RunFolder* folder, observe::EventLog& events, const Limits& limits,
                    const Circumstances& circumstances = {},
                    std::optional<Safetensors>* memory = nullptr);

 private:
  std::unique_ptr<Setup> setup_;
};

}  // namespace lockstep::train
