#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/error.h"
#include "lockstep/gradient_hook.h"
#include "lockstep/world.h"

namespace lockstep {

/// What to do with parameters that a backward pass does not reach, and which so have the gradient
/// of passes before.
enum class Unused {
  forbid,  ///< name them in an error
  find,    ///< take the mean of what they have
};
/// What to do with buffers (BatchNorm's running statistics, say) before each forward pass.
enum class Buffers {
  broadcast,  ///< all workers take rank 0's
  keep,       ///< every worker has its own
};

/// How DistributedDataParallel exchanges gradients.
struct DdpOptions {
  /// The first bucket is small, so that communication begins early.
  int64_t first_bucket_bytes = int64_t{1} << 20;
  /// Gradients travel in buckets of about so many bytes.
  int64_t bucket_bytes = int64_t{25} << 20;
  Unused unused = Unused::forbid;        ///< what to do with parameters that get no gradient
  Buffers buffers = Buffers::broadcast;  ///< what to do with buffers before a forward pass
  /// Rounds gradients to a type of half the bytes before they travel.
  Compress compress = Compress::none;
  /// Replaces the all-reduce: power_sgd(), or one of your own.
  std::shared_ptr<GradientHook> hook = nullptr;
  /// Into how many equal parts a step's batch is cut, of which a worker computes one or more, each
  /// by a forward and a backward pass of its own. The model then ends with the same bits on any
  /// number of workers up to `shards`; see docs/workers.md for what a training loop must do for
  /// that. 0: one for each worker, and the result depends on their number.
  int64_t shards = 0;
  /// With `shards`: what LibTorch's random numbers (dropout) in forward passes follow from, with
  /// the step's and the shard's number.
  uint64_t seed = 1;
};

/// Which workers made the others wait.
struct StragglerReport {
  /// What one worker did.
  struct Rank {
    int64_t steps_late = 0;     ///< in which it was the last one
    double seconds_caused = 0;  ///< that the other workers waited for it, on average
  };
  int64_t steps = 0;        ///< that this is about
  std::vector<Rank> ranks;  ///< by rank
  /// "rank 1 was last in 97 of 100 steps: the others waited 3.2 s for it", or that nobody was.
  std::string text() const;
};

/// What DistributedDataParallel does, whatever the model's type: use that one, whose functions of
/// the same names say what these do.
class GradientSync {
 public:
  /// Collective: checks that all workers have the same model, and gives all rank 0's weights.
  GradientSync(torch::nn::Module& model, World world, DdpOptions options);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  /// To be called before each forward pass in training: makes buffers alike.
  void before_forward();
  /// From here on backward passes only add up gradients on this worker.
  void pause();
  /// Ends what `pause` began.
  void go_on();
  /// Whether gradients are the mean over all workers.
  bool step_complete() const;
  /// Runs `loop`, then takes part in the passes of workers that go on longer.
  void join(const std::function<void()>& loop);
  /// Returns the norm that gradients had.
  double clip_gradient_norm(double largest);
  /// Collective.
  StragglerReport stragglers();

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// Trains one model on many workers: each computes gradients on its part of a batch, and all take
/// the mean, bucket by bucket while backward goes on.
///
///     auto world = lockstep::init(argc, argv);
///     torch::nn::Linear model(4, 2);
///     lockstep::DistributedDataParallel ddp(model, world);
///     torch::optim::SGD optimizer(model->parameters(), 0.1);
///     auto loss = torch::cross_entropy_loss(ddp.forward(x), y);
///     optimizer.zero_grad();
///     loss.backward();  // returns when gradients are the mean over all workers
///     optimizer.step();
///
/// All workers begin with rank 0's parameters and buffers, and must have the same model: Mismatch
/// names the first difference. Every worker does the same number of backward passes; see `join`.
/// The model stays as it was: a parameter that is unfrozen or of another type later, or in a second
/// DistributedDataParallel, is refused by name; weights and buffers may be loaded at any time.
/// Call `forward` here rather than on the model: it keeps buffers alike. Gradients are views into
/// buckets: `optimizer.zero_grad()` may zero or drop them.
///
/// An error ends it for all: whatever is thrown in a backward pass or a join, also by a function or
/// a hook of yours, on one worker, the others get as PeerLost; and each later forward or backward
/// pass throws what was thrown first.
template <typename Net>
class DistributedDataParallel {
 public:
  /// Collective. Throws BadInput where there is no model, Mismatch where workers' models differ.
  DistributedDataParallel(std::shared_ptr<Net> model, World world, DdpOptions options = {})
      : model_(std::move(model)), sync_(existing(model_), std::move(world), std::move(options)) {}
  /// The same, for what TORCH_MODULE has made.
  DistributedDataParallel(const torch::nn::ModuleHolder<Net>& model, World world,
                          DdpOptions options = {})
      : DistributedDataParallel(model.is_empty() ? nullptr : model.ptr(), std::move(world),
                                std::move(options)) {}

  /// The model's forward pass, with buffers that are alike on all workers.
  template <typename... Inputs>
  auto forward(Inputs&&... inputs) {
    sync_.before_forward();
    return model_->forward(std::forward<Inputs>(inputs)...);
  }

  /// The model: ddp->parameters().
  Net* operator->() { return model_.get(); }

  /// Whether the last backward pass was the step's last on this worker, so that gradients are the
  /// mean over all shards: time for the optimizer. Without DdpOptions::shards every one is.
  bool step_complete() const { return sync_.step_complete(); }

  /// As long as the scope lives, backward passes only add up gradients on this worker; the first
  /// one after it takes the mean of the sums. Forward passes inside it belong to the same
  /// accumulation. Scopes may nest.
  ///
  ///     {
  ///       const auto scope = ddp.no_sync();
  ///       loss_of(first).backward();
  ///     }
  ///     loss_of(second).backward();  // gradients are the mean over workers of both passes' sums
  [[nodiscard]] auto no_sync() {
    struct Scope {
      explicit Scope(GradientSync& paused) : sync(paused) { sync.pause(); }
      ~Scope() { sync.go_on(); }
      Scope(const Scope&) = delete;
      Scope& operator=(const Scope&) = delete;
      GradientSync& sync;
    };
    return Scope(sync_);
  }

  /// Runs a training loop that may have fewer passes than other workers': a worker that is done
  /// takes part in the others' collectives, with zeros, until all are. Means still divide by the
  /// number of all workers. In the end all have the model of the worker that went on longest.
  void join(const std::function<void()>& loop) { sync_.join(loop); }

  /// Scales gradients so that the norm over all of them is at most `largest`; returns what it was.
  double clip_gradient_norm(double largest) { return sync_.clip_gradient_norm(largest); }

  /// Of all steps so far. Collective.
  StragglerReport stragglers() { return sync_.stragglers(); }

 private:
  static Net& existing(const std::shared_ptr<Net>& model) {
    if (!model)
      throw BadInput("DistributedDataParallel got no model: a null pointer or an empty holder");
    return *model;
  }

  std::shared_ptr<Net> model_;
  GradientSync sync_;
};

}  // namespace lockstep
