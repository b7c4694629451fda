#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/ddp.h"
#include "parallel/exchange_memory.h"
#include "parallel/flat_parameters.h"
#include "parallel/flat_state.h"
#include "parallel/gradient_hooks.h"
#include "parallel/model_watch.h"
#include "parallel/parameters.h"
#include "parallel/reducer.h"
#include "parallel/shard_statistics.h"
#include "parallel/stragglers.h"

namespace lockstep::parallel {

struct ReplicaOptions {
  collective::Shards shards;
  /// In which every shard is computed, one after another: gradients are added as they come.
  int64_t pieces = 1;
  BucketLimits buckets = {};
  Compress compress = Compress::none;
  /// Reduces buckets instead of the all-reduce; needs one shard per worker.
  std::shared_ptr<GradientHook> hook = nullptr;
  /// Which results every worker needs. With `own_slice`, gradients are all float32, and norms and
  /// gradient(i) are unspecified.
  NeededGradients needed = NeededGradients::all;
  /// Whether parameters are moved into contiguous memory with the layout of their gradients, and
  /// whether workers can exchange them there.
  enum class ParameterMemory { as_it_is, flat, exchanged } parameters = ParameterMemory::as_it_is;
  /// Whether buffers are averaged over shards in every step, or left alone.
  enum class BufferMode { left_alone, mean_over_shards } buffers = BufferMode::left_alone;
};

/// The norm of gradients of which each parameter's has one of these.
double joint_norm(const std::vector<double>& norms);

/// A model's parameters, gradients and buffers on one worker, and their exchange with the other
/// workers' replicas: the one engine of `lockstep train` and DistributedDataParallel.
///
/// A step is one pass for each piece of this worker's shards, then `finish`. In a pass, the
/// backward pass calls `on_gradient` for each gradient, which calls `take`.
///
///     for (int pass = 0; pass < replica.passes(); ++pass) {
///       replica.begin_forward(pass, ShardStatistics::Shard::has_samples);
///       ... forward ...
///       replica.begin_backward(pass);
///       ... backward: replica.take(i) for every parameter ...
///       replica.end_backward();
///     }
///     replica.finish(pieces_with_samples);   // gradient(i) is the mean over all shards
///
/// Forward passes may run ahead of backward passes, as in a pipeline; both are in the order of
/// passes.
class Replica {
 public:
  using OnGradient = std::function<void(size_t parameter)>;

  /// Collective. Throws Mismatch with the first difference if ranks have different models, and
  /// BadInput with the name of a parameter or buffer that is not supported.
  Replica(torch::nn::Module& model, World world, const ReplicaOptions& options,
          OnGradient on_gradient);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  const Parameters& parameters() const { return parameters_; }
  collective::Communicator& group() { return group_; }
  const GradientLayout& layout() const { return reducer_->layout(); }
  /// All worlds in which other workers may wait for this one.
  std::vector<World> worlds() const;

  int passes() const { return reducer_->passes(); }
  int64_t shards() const { return options_.shards.count(); }
  /// Pieces of all shards, and the number of the one that is computed in a pass.
  int64_t pieces() const { return pieces_.count(); }
  int64_t piece(int pass) const {
    return pieces_.bounds()[static_cast<size_t>(group_.rank())] + pass;
  }

  /// Throws BadInput if the model has changed in a way that it must not (see ModelWatch).
  void check_model() { watch_.check(); }
  /// Call it before a forward pass, since torch::load and Tensor::set_ replace a parameter's
  /// memory.
  void notice_loaded_weights();
  void begin_forward(int pass, ShardStatistics::Shard shard);
  void begin_backward(int pass);
  /// Moves a gradient into its bucket. Then `.grad` is undefined, or a view of the bucket. Throws
  /// BadInput outside of this replica's backward pass, such as in that of another part of the
  /// model.
  enum class Gradient { dropped, view };
  void take(size_t parameter, Gradient then);
  /// Returns the numbers of parameters that got no gradient.
  std::vector<size_t> end_backward(Reducer::Unreached unreached = Reducer::Unreached::zeros);
  /// Waits for all gradients and buffers. `pieces_with_samples` counts those of all workers.
  void finish(int64_t pieces_with_samples);
  /// After an unfinished step: restores buffers to their state before it. Parameters have not
  /// changed.
  void roll_back();

  const torch::Tensor& gradient(size_t parameter) const { return reducer_->gradient(parameter); }
  /// Rebuilds the buckets for another order of gradients, and moves existing gradients to them.
  void order_buckets(const std::vector<size_t>& ready);

  /// The norm of every parameter's gradient, for `joint_norm`.
  std::vector<double> gradient_norms() const;
  /// Scales gradients so that their total norm is at most `largest`; returns the norm before.
  double clip_gradient_norm(double largest);
  void scale_gradients(double factor);

  /// Collective: broadcasts parameters and buffers, or buffers, from `root`.
  void share_model(int root);
  void share_buffers(int root);

  /// The report of all steps since the last report. Collective.
  StragglerReport stragglers() { return stragglers_.report(group_); }

  /// Unless ParameterMemory::as_it_is: all parameters and all gradients, with the same layout.
  FlatParameters& flat_parameters() { return *flat_parameters_; }
  torch::Tensor flat_gradients() const { return reducer_->all_gradients(); }
  /// With ParameterMemory::exchanged: the memory of flat_parameters(), one slot.
  const ExchangeMemory& parameter_memory() const { return *parameter_memory_; }

 private:
  void take_hook();
  void place_parameters(const GradientLayout& with);
  void make_reducer(const std::vector<size_t>& ready);
  void close_forward();
  torch::Tensor current_gradient(size_t parameter) const;

  // Constant after construction.
  torch::nn::Module& model_;
  World world_;
  collective::Communicator& group_;
  const ReplicaOptions options_;
  const collective::Shards pieces_;
  const Parameters parameters_;
  std::optional<World> hook_world_;

  ModelWatch watch_;
  FlatState buffers_;
  std::unique_ptr<Reducer> reducer_;
  std::optional<ExchangeMemory> parameter_memory_;
  std::optional<FlatParameters> flat_parameters_;
  std::optional<ShardStatistics> statistics_;
  Stragglers stragglers_;
  int backward_ = 0;  ///< the pass whose backward pass runs, or ran last
  /// The forward pass whose buffers are not yet taken: they are when its backward pass has ended,
  /// which may change them too, or when the next forward pass begins.
  struct Forward {
    int pass;
    ShardStatistics::Shard shard;
  };
  std::optional<Forward> forward_;
  bool under_way_ = false;
  bool in_backward_ = false;  ///< begun and not ended

  GradientHooks hooks_;  // last: they call into all of the above
};

}  // namespace lockstep::parallel
