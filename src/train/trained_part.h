#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "lockstep/objective.h"
#include "parallel/device_mirrors.h"
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
  /// `mirrors` are the part on other devices of this worker, if there are any. Collective.
  TrainedPart(const Recipe& recipe, parallel::ModelPart part, parallel::PartLinks links,
              const World& replicas, const collective::Shards& shards,
              parallel::Replica::OnGradient on_gradient,
              std::shared_ptr<parallel::DeviceMirrors> mirrors = nullptr);

  const parallel::ModelPart& part() const { return part_; }
  const parallel::PartLinks& links() const { return links_; }
  c10::Device device() const { return device_; }
  /// What computes a micro-batch, and where: the part itself or a mirror of it.
  const parallel::ModelPart& part(int micro_batch) const {
    return is_mirrored(micro_batch) ? mirrors_->part_of(micro_batch) : part_;
  }
  c10::Device device(int micro_batch) const {
    return mirrors_ ? mirrors_->device_of(micro_batch) : device_;
  }
  bool is_mirrored(int micro_batch) const { return mirrors_ && mirrors_->has(micro_batch); }
  /// nullptr: this worker has the part on one device.
  parallel::DeviceMirrors* mirrors() const { return mirrors_.get(); }
  parallel::Replica& replica() { return replica_; }
  const parallel::Replica& replica() const { return replica_; }
  parallel::FlatOptimizer& optimizer() { return optimizer_; }

  MicroBatch& micro_batch(int number) { return under_way_[number]; }

  /// Before and after a mirror computes a micro-batch: makes it equal to the part, and takes its
  /// buffers and gradients as if the part had computed them.
  void replicate(int micro_batch) { mirrors_->replicate(micro_batch); }
  void take_from_mirror(int micro_batch, parallel::ShardStatistics::Shard shard);
  /// Waits for all devices after the last micro-batch that they compute at once, so that the time
  /// of each kind of action is known: none of them could overlap. Does nothing without mirrors.
  void finish_group(int micro_batch) const;

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
  const std::shared_ptr<parallel::DeviceMirrors> mirrors_;
  const parallel::Replica::OnGradient on_gradient_;
  parallel::Replica replica_;
  parallel::FlatOptimizer optimizer_;
  std::vector<double> got_gradient_;
  std::map<int, MicroBatch> under_way_;
};

}  // namespace lockstep::train
