#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/range.h"
#include "data/loader.h"
#include "lockstep/objective.h"
#include "objective/scorecard.h"
#include "observe/spans.h"
#include "optim/schedule.h"
#include "parallel/grid.h"
#include "parallel/model_part.h"
#include "parallel/sharded_vector.h"
#include "pipeline/schedule.h"
#include "recipe/recipe.h"
#include "train/batch_tensors.h"
#include "train/memory.h"
#include "train/trained_part.h"
#include "train/user_code.h"

namespace lockstep::train {

/// What all workers do after a step if any of them requests it.
enum class TogetherRequest { stop, regroup };

/// What a step needs.
struct StepParts {
  std::vector<parallel::ModelPart> model;  ///< the parts that this worker trains
  /// Of the model on other devices of this worker, if it is on several.
  std::shared_ptr<parallel::DeviceMirrors> mirrors;
  /// Of the whole model: the position of each trained parameter, by name.
  std::map<std::string, size_t> parameters;
  std::shared_ptr<Objective> objective;
  std::shared_ptr<const DeviceBatches> batches;
  optim::Schedule schedule;
  collective::Shards shards;  ///< of pipelines
  std::string stage_advice;   ///< see Division::advice
  std::shared_ptr<parallel::Grid> grid;
  World world;
};

/// One optimizer update on one global batch. Every pipeline computes the pieces of its shards, its
/// *micro-batches*, and gradients are averaged over all shards. Without stages, a worker is a
/// pipeline of one part, the model.
class Step {
 public:
  /// Moves the model's parameters into contiguous memory. Collective.
  Step(const Recipe& recipe, StepParts parts);

  /// Runs step number `step`, counted from 0, on this pipeline's share of the batch. Returns loss
  /// and metrics of the whole batch. Adds times to `spans`.
  objective::Totals run(const data::LoadedBatch& batch, int64_t step, observe::SpanTimes& spans);

  /// The next step sends this worker's request to all workers, which all see it as granted after
  /// that step.
  void request(TogetherRequest request) { requests_ |= bit(request); }
  bool granted(TogetherRequest request) const { return (granted_ & bit(request)) != 0; }

  /// After `run` has thrown: restores parameters and buffers to their state before it.
  void roll_back();

  /// The names of parameters that got no gradient on any worker so far. Collective.
  std::vector<std::string> without_gradient();

  double learning_rate(int64_t step) const { return parts_.schedule.at(step); }
  /// Whether other workers have parts of the model, or of the optimizer's state, that this one
  /// lacks.
  bool state_is_divided() const;
  const objective::Scorecard& scorecard() const { return scorecard_; }
  /// The parts of the model that this worker trains.
  const std::vector<std::unique_ptr<TrainedPart>>& trained() const { return trained_; }
  parallel::Grid& grid() { return *parts_.grid; }
  /// All worlds in which other workers may wait for this one in a step.
  std::vector<World> worlds() const;

 private:
  using Kind = pipeline::Action::Kind;

  /// What an action works on.
  struct Scene {
    const data::LoadedBatch& batch;
    int64_t step;
    observe::SpanTimes& spans;

    CallPlace place(int64_t samples, int64_t whole_batch) const;
  };
  /// Computes the objective of the scene's samples.
  class ObjectivePasses;

  static int64_t bit(TogetherRequest request) { return int64_t{1} << static_cast<int>(request); }

  TrainedPart& part(int number);
  Range samples_of(const Scene& scene, int micro_batch) const;
  void perform(const pipeline::Action& action, const Scene& scene);
  void backward(parallel::PipelinePart& part, int micro_batch, const Scene& scene);
  void score(parallel::PipelinePart& part, int micro_batch, const Scene& scene);
  objective::Totals finish(const Scene& scene);
  OutOfMemory with_advice(const OutOfMemory& error, const pipeline::Action& action,
                          const Scene& scene);
  BatchDivision division_of(const TrainedPart& part) const {
    return {batch_, part.replica().shards(), accumulate_};
  }
  std::string advice_for(TrainedPart& part, const pipeline::Action& action, const Scene& scene);
  void try_pass(TrainedPart& part, int micro_batch, Range samples, const Scene& scene);
  void take_gradient(size_t part, size_t parameter);
  Loss checked(Loss loss) const;
  void update(const Scene& scene, double weight);

  // Constant after construction.
  const StepParts parts_;
  const uint64_t seed_;
  const int64_t batch_;       ///< samples of a whole batch
  const int64_t accumulate_;  ///< pieces of a shard of the recipe
  const double clip_norm_;
  const std::vector<Field> outputs_;  ///< that the objective expects
  const objective::Scorecard scorecard_;
  const std::vector<pipeline::Action> actions_;  ///< of this worker, in order

  /// What becomes of gradients: those of a backward pass inside the model's forward() are refused.
  enum class Gradients { refused, taken, dropped } gradients_ = Gradients::refused;
  std::vector<std::unique_ptr<TrainedPart>> trained_;
  /// Of the last part's workers: the scorecard's sums, then requests.
  std::optional<parallel::ShardedVector<double>> sums_;
  std::optional<parallel::ShardedVector<double>> maxima_;
  int64_t requests_ = 0;  ///< bits, as bit() says
  int64_t granted_ = 0;
};

}  // namespace lockstep::train
