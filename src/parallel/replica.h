#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/ddp.h"
#include "parallel/flat_parameters.h"
#include "parallel/flat_state.h"
#include "parallel/gradient_hooks.h"
#include "parallel/parameters.h"
#include "parallel/reducer.h"
#include "parallel/shard_statistics.h"
#include "parallel/stragglers.h"

namespace lockstep::parallel {

struct ReplicaOptions {
  collective::Shards shards;
  BucketLimits buckets = {};
  Compress compress = Compress::none;
  /// Reduces buckets instead; then a worker has one shard.
  std::shared_ptr<GradientHook> hook = nullptr;
  /// Whether parameters are moved into one piece of memory, laid out as their gradients are.
  enum class ParameterMemory { as_it_is, flat } parameters = ParameterMemory::as_it_is;
  /// Whether buffers become the mean over shards in every step, or are left alone.
  enum class BufferMode { left_alone, mean_over_shards } buffers = BufferMode::left_alone;
};

/// A model's parameters, gradients and buffers on one worker, and their exchange with the other
/// workers' replicas: the one engine of `lockstep train` and DistributedDataParallel.
///
/// A step is one pass for each of this worker's shards, then `finish`. In a pass, gradients come by
/// a backward pass: each goes to `on_gradient`, which hands it to `take`.
///
///     for (int pass = 0; pass < replica.passes(); ++pass) {
///       replica.begin_pass(pass);
///       ... forward, backward: replica.take(i) for every parameter ...
///       replica.end_pass(ShardStatistics::Shard::has_samples);
///     }
///     replica.finish(shards_with_samples);   // gradient(i) is the mean over all shards
class Replica {
 public:
  using OnGradient = std::function<void(size_t parameter)>;

  /// Collective. Throws Mismatch with the first difference where ranks have other models, and
  /// BadInput, naming it, for a parameter or buffer it cannot serve.
  Replica(torch::nn::Module& model, World world, const ReplicaOptions& options,
          OnGradient on_gradient);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  const Parameters& parameters() const { return parameters_; }
  collective::Communicator& group() { return group_; }
  /// All worlds in which other workers may be waiting for this one.
  std::vector<World> worlds() const;

  int passes() const { return reducer_->passes(); }
  /// The number of the shard that is computed in a pass.
  int64_t shard(int pass) const { return first_shard_ + pass; }
  int64_t shards() const { return options_.shards.count(); }

  void begin_pass(int pass);
  /// The gradient is in its bucket, and `.grad` undefined (`views`: the bucket's place).
  enum class Gradient { dropped, view };
  void take(size_t parameter, Gradient then);
  /// Numbers of parameters that got no gradient.
  std::vector<size_t> end_pass(ShardStatistics::Shard shard,
                               Reducer::Unreached unreached = Reducer::Unreached::zeros);
  /// Waits for all gradients and buffers. So many shards of all workers had samples.
  void finish(int64_t shards_with_samples);
  /// After a step that was not finished: buffers are again what it began with. Parameters have not
  /// changed.
  void roll_back();

  const torch::Tensor& gradient(size_t parameter) const { return reducer_->gradient(parameter); }
  /// Cuts buckets in another order of readiness. What gradients there are moves along.
  void order_buckets(const std::vector<size_t>& ready);

  /// Scales gradients so that the norm over all of them is at most `largest`; returns what it was.
  double clip_gradient_norm(double largest);
  void scale_gradients(double factor);

  /// Collective: all get `root`'s parameters and buffers.
  void share_model(int root);
  void share_buffers(int root);

  /// Of all steps since the last report. Collective.
  StragglerReport stragglers() { return stragglers_.report(group_); }

  /// With ParameterMemory::flat: all parameters and all gradients, laid out alike.
  FlatParameters& flat_parameters() { return *flat_parameters_; }
  std::span<const float> flat_gradients() const;

 private:
  void take_hook();
  void make_reducer(const std::vector<size_t>& ready);
  torch::Tensor current_gradient(size_t parameter) const;

  // Constant after construction.
  torch::nn::Module& model_;
  World world_;
  collective::Communicator& group_;
  const ReplicaOptions options_;
  const int64_t first_shard_;
  const Parameters parameters_;
  std::optional<World> hook_world_;

  FlatState buffers_;
  std::unique_ptr<Reducer> reducer_;
  std::optional<FlatParameters> flat_parameters_;
  std::optional<ShardStatistics> statistics_;
  Stragglers stragglers_;
  int pass_ = 0;
  bool under_way_ = false;

  GradientHooks hooks_;  // last: they call into all of the above
};

}  // namespace lockstep::parallel
