#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "lockstep/objective.h"
#include "parallel/flat_optimizer.h"
#include "parallel/grid.h"
#include "parallel/model_part.h"
#include "parallel/replica.h"
#include "recipe/recipe.h"

namespace lockstep::train {

/// What a part keeps of a micro-batch from its forward until after its backward pass.
struct MicroBatch {
  Batch samples;         ///< the first and the last part's
  Tensors inputs;        ///< received from the part before
  Tensors outputs;       ///< with their history
  Tensors gradients;     ///< of outputs, received from the part after
  Loss loss = {};        ///< the last part's
  at::Tensor generator;  ///< its state before the part, then after it; undefined: as seeded
  int64_t notes = 0;     ///< of workers with earlier parts
};

/// A part of the model on this worker, with its gradients, optimizer and the micro-batches under
/// way.
class TrainedPart {
 public:
  /// Moves the part's parameters into contiguous memory. `on_gradient` is called as by Replica.
  /// Collective.
  TrainedPart(const Recipe& recipe, parallel::ModelPart part, parallel::PartLinks links,
              const World& replicas, const collective::Shards& shards,
              parallel::Replica::OnGradient on_gradient);

  const parallel::ModelPart& part() const { return part_; }
  const parallel::PartLinks& links() const { return links_; }
  c10::Device device() const { return device_; }
  parallel::Replica& replica() { return replica_; }
  const parallel::Replica& replica() const { return replica_; }
  parallel::FlatOptimizer& optimizer() { return optimizer_; }

  MicroBatch& micro_batch(int number) { return under_way_[number]; }

  void receive_input(int micro_batch);
  void send_output(int micro_batch, int64_t notes);
  void receive_gradient(int micro_batch);
  /// The backward pass from `gradients`.
  void backward_from_gradients(int micro_batch);
  /// Gradients of inputs, to the part before; then the micro-batch is forgotten.
  void send_gradient(int micro_batch);
  void forget(int micro_batch) { under_way_.erase(micro_batch); }
  /// Waits until all that was sent has been received.
  void finish_sending();

  /// After an unfinished step.
  void roll_back();

  /// By parameter: 1, or 0 if it never got a gradient on this worker.
  std::vector<double>& got_gradient() { return got_gradient_; }

 private:
  const parallel::ModelPart part_;
  const c10::Device device_;
  const parallel::PartLinks links_;
  parallel::Replica replica_;
  parallel::FlatOptimizer optimizer_;
  std::vector<double> got_gradient_;
  std::map<int, MicroBatch> under_way_;
};

}  // namespace lockstep::train
