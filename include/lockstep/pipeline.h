#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/batch.h"
#include "lockstep/sequential_model.h"
#include "lockstep/world.h"

namespace lockstep {

/// Options of Pipeline: the same on all workers, except for `devices` and `example`.
struct PipelineOptions {
  /// How many stages the model is divided into. A world of several workers must have a multiple of
  /// them: worker d * stages + s computes stage s of pipeline d. One worker computes all stages. 0:
  /// one for each worker or, in a world of one worker, one for each of `devices`.
  int stages = 0;
  /// In how many equal parts a pipeline's batch goes through the stages. Results depend on it, but
  /// not on the stages.
  int micro_batches = 8;
  /// sequential, gpipe, 1f1b or interleaved: see docs/pipelines.md.
  std::string schedule = "1f1b";
  /// For `interleaved`: how many parts of the model a stage computes. 0: 2. One stage has one part.
  int parts_per_stage = 0;
  /// The layers with which parts begin but the first, by number or name: "3,7,9". Empty: parts are
  /// chosen so that the slowest is as fast as possible, if there is an `example`, else so that the
  /// largest has as few parameters as possible; and, if rank 0's devices have limited memory, so
  /// that they fit, with gradients and an optimizer such as Adam.
  std::string split = {};
  /// Inputs of a micro-batch, to measure how long layers take and what memory, in training mode.
  /// Rank 0's are used. Modes, buffers, gradients and random numbers are then as they were.
  Tensors example = {};
  /// Keep only the inputs of layers; the backward pass computes the rest again. It needs less
  /// memory and more time.
  bool recompute = false;
  /// Where this worker's stages are, in their order. One device is for all of them. Empty: where
  /// the model is.
  std::vector<torch::Device> devices = {};
  /// Before each forward pass of a micro-batch LibTorch's random generator (used by dropout) is
  /// seeded with this seed, the step and the micro-batch; after the step it is as it was before.
  uint64_t seed = 1;
};

/// Trains a model whose layers are divided into stages: between workers, or between devices of one
/// worker. A batch goes through the stages in micro-batches, so that several stages compute at a
/// time.
///
///     auto world = lockstep::init(argc, argv);
///     torch::nn::Sequential model(torch::nn::Linear(4, 32), torch::nn::ReLU(),
///                                 torch::nn::Linear(32, 2));
///     lockstep::Pipeline pipeline(model, world, {.micro_batches = 4});
///     torch::optim::SGD optimizer(pipeline.parameters(), 0.1);  // of this worker's stages
///     double loss = pipeline.step(x, y, [](const auto& output, const auto& target) {
///       return torch::cross_entropy_loss(output, target);
///     });
///     optimizer.step();
///     torch::Tensor outputs = pipeline.forward(x);  // evaluation, on all workers
///     pipeline.save_to("model.pt");                 // on all workers; rank 0 writes
///
/// The model is a torch::nn::Sequential, each module of which takes and returns one tensor, or a
/// SequentialModel. All workers make the same one and start with the parameters and buffers of rank
/// 0; to go on with a saved model, torch::load it before. From then on a worker has only its own
/// stages: the parameters of others have no memory. Layers that share weights must be in one part,
/// and every part must have trained parameters.
///
/// **Gradients** are there when `step` returns: the mean over the micro-batches of all pipelines.
/// Any torch::optim optimizer can use them. They do not accumulate over steps, also without
/// zero_grad: use more micro-batches instead. A parameter that the loss does not depend on has a
/// gradient of zeros.
///
/// **Which results are equal.** Loss, gradients and buffers have the same bits for any number of
/// stages, any split, schedule and devices, with and without `recompute`: those of one worker that
/// computes the same micro-batches one after another. D pipelines of M micro-batches give those of
/// one pipeline of D * M micro-batches, if the all-reduce algorithm is canonical (not ring or
/// engine). BatchNorm normalises each micro-batch by itself; its running statistics become the mean
/// over micro-batches. LibTorch must compute with the same number of threads everywhere
/// (torch::set_num_threads(1)).
///
/// If an exception is thrown on one worker, also by your own function, the other workers throw
/// PeerLost, and every later call throws the first exception again. Every wait has the world's
/// deadline (WorldOptions::timeout_seconds).
class Pipeline {
 public:
  /// Collective. Throws BadInput for a model or options that cannot be, and Mismatch if workers
  /// have different ones.
  Pipeline(const std::shared_ptr<torch::nn::Module>& model, World world,
           PipelineOptions options = {});
  /// The same, for a module holder, such as torch::nn::Sequential.
  template <typename Net>
  Pipeline(const torch::nn::ModuleHolder<Net>& model, World world, PipelineOptions options = {})
      : Pipeline(model.is_empty() ? nullptr : model.ptr(), std::move(world), std::move(options)) {}
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// The trained parameters of this worker's stages, for an optimizer.
  std::vector<torch::Tensor> parameters() const;
  /// The same, with their names in the whole model.
  std::vector<std::pair<std::string, torch::Tensor>> named_parameters() const;

  /// Computes gradients of a batch, whose samples are dimension 0 of x and y, and returns the mean
  /// of the micro-batches' losses, on all workers. All workers of a pipeline pass the same batch:
  /// the first stage needs x, the last one y, and others neither (an undefined tensor will do).
  /// Several pipelines pass batches of their own. `loss(output, target)` returns one number for a
  /// micro-batch, such as the mean over its samples. It is called by the worker with the last stage
  /// only. Modules are in the training mode that they have.
  template <typename Function>
  double step(const torch::Tensor& x, const torch::Tensor& y, Function&& loss) {
    return run_step(Tensors(x), Tensors(y), [&](const Tensors& outputs, const Tensors& targets) {
      return loss(outputs.only(), targets.only());
    });
  }
  /// The same for a model with several inputs or outputs: `loss(outputs, targets)` is given both as
  /// Tensors.
  template <typename Function>
  double step(const Tensors& inputs, const Tensors& targets, Function&& loss) {
    return run_step(inputs, targets, [&](const Tensors& outputs, const Tensors& expected) {
      return loss(outputs, expected);
    });
  }

  /// The model's outputs for any number of samples, in evaluation mode, without gradients. All
  /// workers of a pipeline call it, and get the outputs in host memory; only the first stage needs
  /// x. Pipelines may call it different numbers of times.
  torch::Tensor forward(const torch::Tensor& x) { return forward(Tensors(x)).only(); }
  /// The same for a model with several inputs or outputs.
  Tensors forward(const Tensors& inputs);

  /// Scales gradients so that the norm of the whole model's is at most `largest`; returns the norm
  /// before. Collective.
  double clip_gradient_norm(double largest);

  /// The parameters and buffers of the whole model by their names in it, in host memory, on rank 0;
  /// none on other workers. Collective.
  Tensors state();
  /// Writes the whole model to a file, as torch::save(model, path) would on one worker: torch::load
  /// reads it, also for another number of stages. Rank 0 writes. Collective.
  void save_to(const std::string& path);

  /// The workers that train the same stages, ranked by pipeline: DistributedSampler needs them to
  /// give each pipeline its part of a data set, ShardedOptimizer to divide an optimizer's state.
  World replicas() const;
  /// How the model is divided, as PipelineOptions::split takes it.
  std::string split() const;

 private:
  using LossFunction = std::function<torch::Tensor(const Tensors&, const Tensors&)>;
  double run_step(const Tensors& inputs, const Tensors& targets, const LossFunction& loss);

  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
