#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "collective/communicator.h"
#include "collective/serial_queue.h"
#include "lockstep/gradient_hook.h"
#include "parallel/gradient_layout.h"
#include "parallel/parameters.h"
#include "parallel/shard_schedule.h"

namespace lockstep::parallel {

/// Sizes and types of parameters' gradients. Throws BadInput, naming it, for a parameter that is
/// not on the CPU or whose type collectives do not know.
std::vector<GradientSize> gradient_sizes(const Parameters& parameters);

/// Averages gradients over all shards of all workers, bucket by bucket, while they are computed.
///
/// A worker computes its shards one after another, a *pass* each. `add` copies a gradient into the
/// pass's slot of the gradient memory, unless it lies there already. When a bucket is *full*, all
/// its gradients added, slots are folded along the canonical tree; in the last pass its all-reduce
/// then starts, after those of all buckets before it, so that all workers start them in one order.
///
///     reducer.begin_pass(0);
///     ... backward: reducer.add(i) for every parameter ...
///     reducer.end_pass();
///     reducer.finish();          // gradient(i) is the mean, the same on every worker
class Reducer {
 public:
  Reducer(Parameters parameters, GradientLayout layout, const collective::Shards& shards,
          collective::Communicator& group);

  /// Lets `hook` reduce buckets, over `world`. One shard a worker only.
  void use_hook(std::shared_ptr<GradientHook> hook, World world);

  int passes() const { return static_cast<int>(schedule_.passes.size()); }
  const GradientLayout& layout() const { return layout_; }

  void begin_pass(int pass);

  /// The parameter's `.grad` is whole. Afterwards it is not needed. Throws BadInput for a sparse
  /// one.
  void add(size_t parameter);

  /// What a parameter counts as that got no gradient in a pass.
  enum class Unreached {
    what_it_has,  ///< in `.grad`, from passes before; zeros if there is nothing
    zeros,
  };
  /// Numbers of parameters that got no gradient in this pass.
  std::vector<size_t> end_pass(Unreached unreached = Unreached::what_it_has);

  /// Waits until all buckets are reduced.
  void finish();

  /// The parameter's place in the first slot, where the result is: a view.
  const torch::Tensor& gradient(size_t parameter) const { return views_[0][parameter]; }
  /// The whole first slot.
  std::byte* memory() const { return memory_.data.get(); }

  /// In the last step, over all buckets: seconds from this worker's readiness until all had come
  /// and the bucket was reduced. Who makes the others wait has the least.
  double seconds_waited() const { return seconds_waited_; }

 private:
  struct Progress {
    size_t added = 0;
    collective::Pending pending;
  };

  torch::Tensor view_of(size_t parameter, int slot) const;
  const torch::Tensor& view_in_pass(size_t parameter) const;
  void put(size_t parameter);
  void count(size_t parameter);
  std::byte* place(size_t bucket, int slot) const;
  void fill(size_t bucket);
  void start_full_buckets();
  collective::Pending start(size_t bucket);

  // Constant after construction.
  const Parameters parameters_;
  const GradientLayout layout_;
  const collective::Shards shards_;
  const ShardSchedule schedule_;
  collective::Communicator& group_;
  transport::Memory memory_;                       ///< slot after slot
  std::vector<std::vector<torch::Tensor>> views_;  ///< by slot, by parameter
  std::shared_ptr<GradientHook> hook_;
  std::optional<World> hook_world_;

  // Of the step under way.
  int pass_ = 0;
  std::vector<bool> added_;         ///< by parameter, in this pass
  std::vector<Progress> progress_;  ///< by bucket
  size_t next_bucket_ = 0;          ///< to start
  double seconds_waited_ = 0;

  collective::SerialQueue hook_lane_;  // last, so that it ends first
};

}  // namespace lockstep::parallel
