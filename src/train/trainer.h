#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/agreement.h"
#include "data/training_data.h"
#include "lockstep/world.h"
#include "recipe/recipe.h"
#include "run/events.h"
#include "run/outcome.h"
#include "run/run_folder.h"
#include "run/safetensors.h"

namespace lockstep::train {

struct Setup;

/// What a run's events contain that the trainer itself does not know.
struct Circumstances {
  run::Json workers = run::Json::object();  ///< added to the "start" event
  std::vector<std::string> warnings = {};   ///< written after it
  bool goes_on = false;  ///< a later generation of an elastic run, which has a "start" event
};

/// Whether a run starts, or may have a checkpoint or the memory of other workers to continue from,
/// which has all that model.weights is for.
enum class Start { anew, again };

/// Runs a recipe in a run's folder and writes its events.
///
///     Trainer trainer(recipe, world, data::load_training_data(recipe.data, ...));
///     RunFolder folder = RunFolder::create("runs/mine", recipe);      // on rank 0
///     EventLog events(folder.events());
///     Outcome outcome = trainer.run(&folder, events, {});
class Trainer {
 public:
  /// Loads and checks everything, so that all errors of a recipe are found before the run's folder
  /// is created. Collective. Throws BadInput; Mismatch if workers have different recipes, data or
  /// `facts`: what else must be the same on all workers. `devices` are those of this host which its
  /// workers take, as in device/visible.h; empty: all.
  Trainer(Recipe recipe, World world, std::shared_ptr<const data::TrainingData> data,
          Facts facts = {}, Start start = Start::anew, const std::string& devices = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// How to print the objective's metrics: {"accuracy": "percent"}.
  run::Json shown_metrics() const;

  struct Limits {
    /// When set (by a signal handler, say), stop after the current step, with a checkpoint.
    const std::atomic<bool>* stop = nullptr;
    /// Stop after this many steps, with a checkpoint.
    int64_t stop_at_step = std::numeric_limits<int64_t>::max();
    /// When set, stop after the current step without a checkpoint, to begin a new generation.
    const std::atomic<bool>* regroup = nullptr;
    /// Receives the number of finished steps.
    std::atomic<int64_t>* steps_done = nullptr;
  };

  /// Trains from the folder's newest checkpoint, if there is one, to the end of the recipe or to
  /// one of the limits. Throws BadInput if the checkpoint is for another model, and Error if the
  /// loss is not finite. Only rank 0 has a folder. Call it once. Collective.
  ///
  /// With `memory`: if training stops for a new generation or throws, it receives the state after
  /// the last finished step, to continue from in the next generation. If any worker's `memory` is
  /// not empty at the start, training continues from it instead of from a checkpoint.
  run::Outcome run(const run::RunFolder* folder, run::EventLog& events, const Limits& limits,
                   const Circumstances& circumstances = {},
                   std::optional<run::Safetensors>* memory = nullptr);

 private:
  std::unique_ptr<Setup> setup_;
};

}  // namespace lockstep::train
