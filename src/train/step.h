#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "device/memory_account.h"
#include "lockstep/model.h"
#include "lockstep/objective.h"
#include "objective/scorecard.h"
#include "observe/spans.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "parallel/replica.h"
#include "parallel/sharded_vector.h"
#include "recipe/recipe.h"
#include "train/batch_tensors.h"

namespace lockstep::train {

/// What all workers do after a step if any of them requests it.
enum class TogetherRequest { stop, regroup };

/// What a step needs.
struct StepParts {
  std::shared_ptr<Model> model;
  std::shared_ptr<Objective> objective;
  std::shared_ptr<const DeviceBatches> batches;
  optim::Schedule schedule;
  collective::Shards shards;
  World world;
};

/// One optimizer update on one global batch: every worker computes its shards, one after another,
/// and gradients are averaged over all shards.
class Step {
 public:
  /// Moves the model's parameters into contiguous memory. Collective.
  Step(const Recipe& recipe, StepParts parts);

  /// Runs step number `step`, counted from 0, on this worker's share of the batch. Returns loss and
  /// metrics of the whole batch. Adds times to `spans`.
  objective::Totals run(const data::LoadedBatch& batch, int64_t step, observe::SpanTimes& spans);

  /// The next step sends this worker's request to all workers, which all see it as granted after
  /// that step.
  void request(TogetherRequest request) { requests_[static_cast<size_t>(request)] = true; }
  bool granted(TogetherRequest request) const { return granted_[static_cast<size_t>(request)]; }

  /// After `run` has thrown: restores parameters and buffers to their state before it.
  void roll_back() { replica_.roll_back(); }

  /// The names of parameters that got no gradient on any worker so far. Collective.
  std::vector<std::string> without_gradient();

  double learning_rate(int64_t step) const { return parts_.schedule.at(step); }
  const objective::Scorecard& scorecard() const { return scorecard_; }
  parallel::Replica& replica() { return replica_; }
  optim::Optimizer& optimizer() { return *optimizer_; }

 private:
  /// A pass's part of a batch.
  struct Piece {
    int64_t step;
    int64_t shard;
    const Batch& samples;
    double scale;      ///< of the loss
    const char* hint;  ///< what to do about an exception in the model
  };
  struct Result {
    Tensors outputs;
    Loss loss;
  };

  void run_shard(int pass, const data::LoadedBatch& batch, int64_t step, observe::SpanTimes& spans);
  Result forward_backward(const Piece& piece, observe::SpanTimes& spans);
  OutOfMemory with_advice(const OutOfMemory& error, const data::LoadedBatch& batch, int64_t step,
                          int pass);
  void take_gradient(size_t parameter);
  Loss checked(Loss loss) const;
  void update(const data::LoadedBatch& batch, int64_t step, double weight);

  // Constant after construction.
  const StepParts parts_;
  const c10::Device device_;
  const uint64_t seed_;
  const int64_t batch_;       ///< samples of a whole batch
  const int64_t accumulate_;  ///< pieces of a shard of the recipe
  const double clip_norm_;
  const std::vector<Field> outputs_;  ///< that the objective expects
  const objective::Scorecard scorecard_;

  std::vector<double> got_gradient_;  ///< by parameter: 1, or 0 if it never did on this worker
  /// What becomes of gradients: those of a backward pass inside the model's forward() are refused.
  enum class Gradients { refused, taken, dropped } gradients_ = Gradients::refused;
  parallel::Replica replica_;
  const std::unique_ptr<optim::Optimizer> optimizer_;
  const MemoryCharge optimizer_memory_;
  parallel::ShardedVector<double> sums_;  ///< the scorecard's sums, then requests
  std::optional<parallel::ShardedVector<double>> maxima_;
  std::array<bool, 2> requests_ = {};  ///< by TogetherRequest
  std::array<bool, 2> granted_ = {};
};

}  // namespace lockstep::train
