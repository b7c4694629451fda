#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "lockstep/objective.h"
#include "parallel/device_mirrors.h"
#include "parallel/graph_inputs.h"
#include "parallel/grid.h"
#include "parallel/model_part.h"
#include "parallel/replica.h"

namespace lockstep::parallel {

/// What a part keeps of a micro-batch from its forward until after its backward pass.
struct MicroBatch {
  Batch samples;         ///< the first and the last part's
  GraphInputs inputs;    ///< received from the part before
  Tensors read_only;     ///< inputs that the part must not change in place
  Tensors outputs;       ///< with their history
  Tensors gradients;     ///< of distinct outputs, received from the part after
  Loss loss = {};        ///< the last part's
  at::Tensor generator;  ///< its state before the part, then after it; undefined: as seeded
  int64_t notes = 0;     ///< of workers with earlier parts
};

/// A part of a model on this worker, as a pipeline trains it: with its gradients, the links to the
/// parts before and after it, and the micro-batches under way.
class PipelinePart {
 public:
  /// `replicas` are the workers that train the same part. `on_gradient` is called as by Replica.
  /// `mirrors` are the part on other devices of this worker, if there are any. Collective.
  PipelinePart(ModelPart part, PartLinks links, const World& replicas,
               const ReplicaOptions& options, Replica::OnGradient on_gradient,
               std::shared_ptr<DeviceMirrors> mirrors = nullptr);

  const ModelPart& part() const { return part_; }
  const PartLinks& links() const { return links_; }
  c10::Device device() const { return device_; }
  /// What computes a micro-batch, and where: the part itself or a mirror of it.
  const ModelPart& part(int micro_batch) const {
    return is_mirrored(micro_batch) ? mirrors_->part_of(micro_batch) : part_;
  }
  c10::Device device(int micro_batch) const {
    return mirrors_ ? mirrors_->device_of(micro_batch) : device_;
  }
  bool is_mirrored(int micro_batch) const { return mirrors_ && mirrors_->has(micro_batch); }
  /// nullptr: this worker has the part on one device.
  DeviceMirrors* mirrors() const { return mirrors_.get(); }
  Replica& replica() { return replica_; }
  const Replica& replica() const { return replica_; }

  MicroBatch& micro_batch(int number) { return under_way_[number]; }

  /// The samples of the first and of the last part.
  void take_samples(int micro_batch, Batch samples);
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
  /// Takes the buffers and gradients of a mirror as if the part had computed the micro-batch.
  void take_from_mirror(int micro_batch, ShardStatistics::Shard shard);
  /// Waits for all devices after the last micro-batch that they compute at once, so that the time
  /// of each kind of action is known: none of them could overlap. Does nothing without mirrors.
  void finish_group(int micro_batch) const;

  /// After an unfinished step.
  void roll_back();

 private:
  const ModelPart part_;
  const c10::Device device_;
  const PartLinks links_;
  const std::shared_ptr<DeviceMirrors> mirrors_;
  const Replica::OnGradient on_gradient_;
  Replica replica_;
  std::map<int, MicroBatch> under_way_;
  int64_t gradients_received_ = 0;
};

}  // namespace lockstep::parallel
