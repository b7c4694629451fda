#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "collective/communicator.h"
#include "collective/serial_queue.h"
#include "lockstep/gradient_hook.h"
#include "parallel/exchange_memory.h"
#include "parallel/gradient_layout.h"
#include "parallel/parameters.h"
#include "parallel/shard_schedule.h"

namespace lockstep::parallel {

/// Sizes and types of parameters' gradients. Throws BadInput with the parameter's name if it is on
/// another device than the first one or collectives do not support its type.
std::vector<GradientSize> gradient_sizes(const Parameters& parameters);

/// Which results a worker needs of every bucket: the rest may be left unspecified, since a
/// reduce-scatter sends half as much as an all-reduce.
enum class NeededGradients { all, own_slice };

struct ReducerOptions {
  /// The order in which gradients become ready: numbers of parameters, each once.
  std::vector<size_t> ready;
  BucketLimits buckets = {};
  Compress compress = Compress::none;
  NeededGradients needed = NeededGradients::all;
  int64_t pieces = 1;  ///< of every shard
};

/// Averages gradients over all shards of all workers, bucket by bucket, while they are computed.
///
/// A worker computes its shards one after another, with one *pass* for each of their pieces. `add`
/// copies a gradient into the pass's slot of the gradient memory, unless it is there already; those
/// of later pieces of a shard are added there. When all gradients of a
/// bucket have been added, the bucket is *full*, and its slots are folded along the canonical tree;
/// in the last pass its all-reduce then starts, after those of all earlier buckets, so that all
/// workers start them in the same order. Where a worker needs only its slice of the results, it is
/// a reduce-scatter.
///
/// With compression, slots have the narrower type: every shard's gradient is divided by the number
/// of shards and rounded, and every sum is rounded, so that the result depends only on the shards.
///
///     reducer.begin_pass(0);
///     ... backward: reducer.add(i) for every parameter ...
///     reducer.end_pass();
///     reducer.finish();          // gradient(i) is the mean, the same on every worker
class Reducer {
 public:
  Reducer(Parameters parameters, const ReducerOptions& options, const collective::Shards& shards,
          collective::Communicator& group);

  /// Uses `hook` to reduce buckets, over `world`. Throws BadInput if a worker has several shards.
  void use_hook(std::shared_ptr<GradientHook> hook, World world);

  int passes() const { return static_cast<int>(schedule_.passes.size()); }
  /// The layout of the results.
  const GradientLayout& layout() const { return layout_; }

  void begin_pass(int pass);

  /// Takes the parameter's complete `.grad`, which is not needed afterwards. Throws BadInput if it
  /// is sparse.
  void add(size_t parameter);

  /// The gradient of a parameter that a backward pass did not reach.
  enum class Unreached {
    what_it_has,  ///< its `.grad` from earlier passes; zeros if undefined
    zeros,
  };
  /// Returns the numbers of parameters that got no gradient in this pass.
  std::vector<size_t> end_pass(Unreached unreached = Unreached::what_it_has);

  /// Waits until all buckets are reduced.
  void finish();

  /// A view of the parameter's result.
  const torch::Tensor& gradient(size_t parameter) const { return results_[parameter]; }
  /// All results, laid out as `layout()`, which must be of one type.
  torch::Tensor all_gradients() const;

  /// In the last step, over all buckets: seconds from when this worker's bucket was full until it
  /// was reduced on all. A straggler has the lowest value.
  double seconds_waited() const { return seconds_waited_; }

 private:
  /// The progress of a bucket in the current pass.
  struct BucketState {
    size_t added = 0;
    collective::Pending pending;
  };

  bool narrow() const { return narrow_type_.has_value(); }
  const ShardSchedule::Pass& pass() const { return schedule_.passes[static_cast<size_t>(pass_)]; }
  const torch::Tensor& view_in_pass(size_t parameter) const;
  void put(size_t parameter);
  void count(size_t parameter);
  ExchangeMemory::Part part(size_t bucket, int slot) const;
  ExchangeMemory::Part result(size_t bucket) const;
  /// Compressed gradients have another layout than results, and hooks reduce whole buckets.
  bool scatters() const { return needed_ == NeededGradients::own_slice && !narrow() && !hook_; }
  void fill(size_t bucket);
  void start_full_buckets();
  collective::Pending start(size_t bucket);
  collective::Pending start_hook(size_t bucket);
  void widen();

  // Constant after construction.
  const Parameters parameters_;
  const std::optional<Type>
      narrow_type_;  ///< the type in which gradients are sent, if it is not their own
  const NeededGradients needed_;
  const GradientLayout layout_;       ///< of results
  const GradientLayout slot_layout_;  ///< the same, unless they are sent in another type
  const collective::Shards shards_;
  const ShardSchedule schedule_;
  collective::Communicator& group_;
  const ExchangeMemory memory_;
  const torch::Tensor wide_;  ///< the memory of results as bytes, if slots are narrow
  std::vector<std::vector<torch::Tensor>> slots_;  ///< views by slot, by parameter
  std::vector<torch::Tensor> results_;             ///< views by parameter
  std::shared_ptr<GradientHook> hook_;
  std::optional<World> hook_world_;

  // Of the current step.
  int pass_ = 0;
  std::vector<bool> added_;           ///< by parameter, in this pass
  std::vector<BucketState> buckets_;  ///< by bucket
  size_t next_bucket_ = 0;            ///< to start
  double seconds_waited_ = 0;

  collective::SerialQueue hook_lane_;  // last, so that it ends first
};

}  // namespace lockstep::parallel
