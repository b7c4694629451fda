#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "collective/communicator.h"
#include "data/loader.h"
#include "model/model.h"
#include "observe/spans.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "parallel/gradient_hooks.h"
#include "parallel/reducer.h"
#include "parallel/sharded_vector.h"
#include "recipe/recipe.h"
#include "train/flat_parameters.h"
#include "train/shard_statistics.h"

namespace lockstep::train {

/// What a number of samples gave, added up.
struct Totals {
  double loss = 0;  ///< summed over samples
  int64_t correct = 0;
  int64_t samples = 0;

  double mean_loss() const { return samples == 0 ? 0 : loss / static_cast<double>(samples); }
  double accuracy() const {
    return samples == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(samples);
  }
  Totals& operator+=(const Totals& other);
};

/// A batch's values and labels as tensors over the loader's memory.
struct BatchTensors {
  torch::Tensor values;
  torch::Tensor labels;
};
BatchTensors to_tensors(const data::Batch& batch, const data::Shape& shape);

/// What workers do together after a step if one of them wishes it.
enum class Wish { stop, regroup };

/// How a step is divided among workers.
struct Division {
  collective::Shards shards;
  collective::Communicator& group;
};

/// One optimizer update on one global batch: every worker computes its shards of it, one after
/// another, and all take the mean.
class Step {
 public:
  /// `model` has the sample shape `shape`; its parameters are made contiguous.
  Step(const Recipe& recipe, std::shared_ptr<model::Model> model, data::Shape shape,
       optim::Schedule schedule, const Division& division);

  /// Step number `step`, counted from 0, on this worker's share of the batch. Returns what the
  /// whole batch gave. The times go to `spans`.
  Totals run(const data::Batch& batch, int64_t step, observe::SpanTimes& spans);

  /// The next step tells all workers of a wish of this one; it is then agreed for all of them
  /// after the same step.
  void wish(Wish wish) { wishes_[static_cast<size_t>(wish)] = true; }
  bool agreed(Wish wish) const { return agreed_[static_cast<size_t>(wish)]; }

  /// After `run` has thrown: parameters and buffers are again what they were before it.
  void take_back();

  double learning_rate(int64_t step) const { return schedule_.at(step); }
  FlatParameters& parameters() { return parameters_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  /// How long this worker's buckets waited for others' in the last step.
  double seconds_waited() const { return reducer_.seconds_waited(); }

 private:
  void run_shard(int pass, const data::Batch& batch, int64_t step, observe::SpanTimes& spans);
  void take_gradient(size_t parameter);
  std::span<const float> gradients() const;

  // Constant after construction.
  const std::shared_ptr<model::Model> model_;
  const data::Shape shape_;
  const parallel::Parameters trained_;
  collective::Communicator& group_;
  const collective::Shards shards_;
  const int64_t first_shard_;  ///< of this worker's
  const optim::Schedule schedule_;
  const int64_t seed_;
  const double label_smoothing_;
  const nn::Kernels kernels_;

  parallel::Reducer reducer_;
  FlatParameters parameters_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  ShardStatistics statistics_;
  parallel::ShardedVector<double> totals_;
  std::array<bool, 2> wishes_ = {};  ///< by Wish
  std::array<bool, 2> agreed_ = {};
  bool under_way_ = false;

  parallel::GradientHooks hooks_;  // last: they call into all of the above
};

}  // namespace lockstep::train
