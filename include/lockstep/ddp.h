#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/error.h"
#include "lockstep/gradient_hook.h"
#include "lockstep/world.h"

namespace lockstep {

/// What to do if a backward pass does not reach some parameters.
enum class Unused {
  forbid,  ///< throw an error with their names
  find,    ///< average the gradients that they have from earlier passes
};
/// What to do with buffers (such as BatchNorm's running statistics).
enum class Buffers {
  broadcast,  ///< after each backward pass all workers get those of rank 0
  keep,       ///< every worker keeps its own
};

/// All optimizers of a training loop.
using Optimizers = std::vector<torch::optim::Optimizer*>;

/// Options of DistributedDataParallel.
struct DdpOptions {
  /// Size of the first bucket. It is small, so that communication starts early.
  int64_t first_bucket_bytes = int64_t{1} << 20;
  /// Size of the other buckets: gradients are reduced in buckets of about this many bytes.
  int64_t bucket_bytes = int64_t{25} << 20;
  Unused unused = Unused::forbid;        ///< parameters without a gradient
  Buffers buffers = Buffers::broadcast;  ///< whether buffers are the same on all workers
  /// Sends gradients as 16-bit numbers.
  Compress compress = Compress::none;
  /// Replaces the all-reduce of gradients: power_sgd(), or your own hook.
  std::shared_ptr<GradientHook> hook = nullptr;
  /// Number of equal parts of a step's batch. Each worker computes one or more of them, each with
  /// its own forward and backward pass. The final model then has the same bits on any number of
  /// workers up to `shards`, if the training loop draws its data accordingly (DistributedSampler
  /// with the same `shards`) and LibTorch computes with the same number of threads
  /// (torch::set_num_threads(1)); rank 0 prints a warning if not. See docs/workers.md. 0: one per
  /// worker; then the result depends on the number of workers.
  int64_t shards = 0;
  /// With `shards`: before each forward pass LibTorch's random generator (used by dropout) is
  /// seeded with this seed, the step and the shard.
  uint64_t seed = 1;
};

/// Which workers the others waited for.
struct StragglerReport {
  /// One worker.
  struct Rank {
    int64_t steps_late = 0;     ///< steps in which it was the last one
    double seconds_caused = 0;  ///< time that the others waited for it, on average
  };
  int64_t steps = 0;        ///< number of steps that the report covers
  std::vector<Rank> ranks;  ///< by rank
  /// "rank 1 was last in 97 of 100 steps: the others waited 3.2 s for it", or that there was none.
  std::string text() const;
};

/// The part of DistributedDataParallel that does not depend on the model's type. Use
/// DistributedDataParallel; its functions of the same names are documented there.
class GradientSync {
 public:
  /// Checks that all workers have the same model and broadcasts the weights of rank 0. Collective.
  GradientSync(torch::nn::Module& model, World world, DdpOptions options);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  /// Call before each forward pass.
  void before_forward();
  /// From now on backward passes only accumulate gradients on this worker.
  void pause();
  /// Ends `pause`.
  void go_on();
  /// Whether gradients are averaged over all workers.
  bool step_complete() const;
  /// Runs `loop`, then takes part in the collectives of workers that are not done yet.
  void join(const std::function<void()>& loop, const Optimizers& optimizers);
  /// Returns the norm before clipping.
  double clip_gradient_norm(double largest);
  /// Collective.
  StragglerReport stragglers();

 private:
  class State;
  std::unique_ptr<State> state_;
};

namespace parallel {

/// Models that are passed as they are, rather than by a pointer or a module holder.
template <typename Net>
concept IsHandle =
    std::is_same_v<Net, torch::nn::AnyModule> || std::is_same_v<Net, torch::jit::Module>;

/// The module with a model's parameters and buffers; nullptr if the model is empty. That of a
/// TorchScript module has the same tensors and follows its training mode.
inline std::shared_ptr<torch::nn::Module> module_of(std::shared_ptr<torch::nn::Module> model) {
  return model;
}
inline std::shared_ptr<torch::nn::Module> module_of(
    const std::shared_ptr<torch::nn::AnyModule>& model) {
  return model->is_empty() ? nullptr : model->ptr();
}
std::shared_ptr<torch::nn::Module> module_of(const std::shared_ptr<torch::jit::Module>& model);

}  // namespace parallel

/// Trains one model on many workers: each computes gradients on its part of a batch, and the
/// gradients are averaged, bucket by bucket, while the backward pass is still running.
///
///     auto world = lockstep::init(argc, argv);
///     torch::nn::Linear model(4, 2);
///     lockstep::DistributedDataParallel ddp(model, world);
///     torch::optim::SGD optimizer(model->parameters(), 0.1);
///     auto loss = torch::cross_entropy_loss(ddp(x), y);
///     optimizer.zero_grad();
///     loss.backward();  // returns when gradients are the mean over all workers
///     optimizer.step();
///
/// The model is a module of your own, a torch::nn::AnyModule or a TorchScript module
/// (torch::jit::load), whose forward pass returns an IValue:
///
///     lockstep::DistributedDataParallel scripted(torch::jit::load(file), world);
///     auto scripted_loss = torch::cross_entropy_loss(scripted(x).toTensor(), y);
///
/// All workers start with the parameters and buffers of rank 0. They must have the same model;
/// otherwise Mismatch names the first difference. Every worker must do the same number of backward
/// passes, except inside `join`. Call `forward` of this class and not of the model: it notices
/// changes of the model. Gradients are views into buckets; `optimizer.zero_grad()` may zero them or
/// set them to undefined.
///
/// In evaluation (`model->eval()`) nothing is sent, so that workers may have different numbers of
/// batches; buffers are those of rank 0 after every backward pass. Only if the last forward pass in
/// training had no backward pass does the next forward pass send buffers.
///
/// The set of trained parameters and their types must not change: a parameter that is frozen,
/// unfrozen or registered later, or is part of a second DistributedDataParallel, is refused by
/// name. Weights and buffers may be loaded at any time before a forward pass, the same on all
/// workers.
///
/// The model may be on any one device: move it there first, then make this. Gradients are added in
/// host memory, or in the device's if the world's transport carries that (`nccl`).
///
/// If an exception is thrown on one worker in a backward pass or in `join`, also by your own
/// function or hook, the other workers throw PeerLost, and every later forward or backward pass
/// throws the first exception again.
template <typename Net>
class DistributedDataParallel {
 public:
  /// Collective. Throws BadInput if `model` is null, and Mismatch if workers have different models.
  DistributedDataParallel(std::shared_ptr<Net> model, World world, DdpOptions options = {})
      : model_(std::move(model)),
        module_(model_ ? parallel::module_of(model_) : nullptr),
        sync_(existing(module_), std::move(world), std::move(options)) {}
  /// The same, for a module holder (TORCH_MODULE).
  DistributedDataParallel(const torch::nn::ModuleHolder<Net>& model, World world,
                          DdpOptions options = {})
      : DistributedDataParallel(model.is_empty() ? nullptr : model.ptr(), std::move(world),
                                std::move(options)) {}
  /// The same, for an AnyModule or a TorchScript module.
  DistributedDataParallel(const Net& model, World world, DdpOptions options = {})
    requires parallel::IsHandle<Net>
      : DistributedDataParallel(std::make_shared<Net>(model), std::move(world),
                                std::move(options)) {}

  /// The model's forward pass.
  template <typename... Inputs>
  auto forward(Inputs&&... inputs) {
    sync_.before_forward();
    if constexpr (std::is_same_v<Net, torch::jit::Module>)
      return model_->forward({torch::jit::IValue(std::forward<Inputs>(inputs))...});
    else
      return model_->forward(std::forward<Inputs>(inputs)...);
  }
  /// The same.
  template <typename... Inputs>
  auto operator()(Inputs&&... inputs) {
    return forward(std::forward<Inputs>(inputs)...);
  }

  /// The model's parameters, for an optimizer.
  std::vector<torch::Tensor> parameters() const { return module_->parameters(); }
  /// Switches the model to training mode, or to evaluation.
  void train(bool on = true) { module_->train(on); }
  /// Switches the model to evaluation.
  void eval() { train(false); }
  /// Whether the model is in training mode.
  bool is_training() const { return module_->is_training(); }

  /// The model, as in ddp->parameters().
  Net* operator->() { return model_.get(); }

  /// Whether the last backward pass completed the step on this worker: gradients are then averaged
  /// over all shards, and it is time for optimizer.step(). A loop with DdpOptions::shards must
  /// check this: a worker may have several shards of a step, and others fewer, so that an earlier
  /// optimizer.step() would use gradients of a part of the batch, and models would become
  /// different. Without shards it is true after every backward pass.
  bool step_complete() const { return sync_.step_complete(); }

  /// While the returned scope exists, backward passes only accumulate gradients on this worker; the
  /// first backward pass after it averages the sums. Call forward inside the scope, too. Scopes may
  /// be nested. Call neither clip_gradient_norm nor optimizer.step() inside: gradients are not
  /// averaged there, and models of different workers would become different.
  ///
  ///     {
  ///       const auto scope = ddp.no_sync();
  ///       loss_of(first).backward();
  ///     }
  ///     loss_of(second).backward();  // gradients: sums of both passes, averaged over workers
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

  /// Runs a training loop that may have fewer backward passes than on other workers. A worker that
  /// is done takes part in the others' collectives with zeros until all are done. Means are still
  /// divided by the number of all workers. At the end all workers get the model, and the state and
  /// options of all `optimizers` of the loop, of the worker with the most passes. The loop must not
  /// call other collectives, nor the model have a SyncBatchNorm, nor be on another device than the
  /// CPU.
  ///
  ///     ddp.join([&] { train_an_epoch(ddp, optimizer); }, {&optimizer});
  void join(const std::function<void()>& loop, const Optimizers& optimizers) {
    sync_.join(loop, optimizers);
  }

  /// Scales gradients so that their total norm is at most `largest`. Returns the norm before.
  double clip_gradient_norm(double largest) { return sync_.clip_gradient_norm(largest); }

  /// Stragglers of all steps so far. Collective.
  StragglerReport stragglers() { return sync_.stragglers(); }

 private:
  static torch::nn::Module& existing(const std::shared_ptr<torch::nn::Module>& module) {
    if (!module)
      throw BadInput("DistributedDataParallel got no model: a null pointer or an empty holder");
    return *module;
  }

  std::shared_ptr<Net> model_;
  std::shared_ptr<torch::nn::Module> module_;  ///< with its parameters
  GradientSync sync_;
};

}  // namespace lockstep
