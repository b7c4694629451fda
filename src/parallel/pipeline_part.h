#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "lockstep/objective.h"
#include "parallel/grid.h"
#include "parallel/model_part.h"
#include "parallel/replica.h"

namespace lockstep::parallel {

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

/// A part of a model on this worker, as a pipeline trains it: with its gradients, the links to the
/// parts before and after it, and the micro-batches under way.
class PipelinePart {
 public:
  /// `replicas` are the workers that train the same part. `on_gradient` is called as by Replica.
  /// Collective.
  PipelinePart(ModelPart part, PartLinks links, const World& replicas,
               const ReplicaOptions& options, Replica::OnGradient on_gradient);

  const ModelPart& part() const { return part_; }
  const PartLinks& links() const { return links_; }
  c10::Device device() const { return device_; }
  Replica& replica() { return replica_; }
  const Replica& replica() const { return replica_; }

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

 private:
  const ModelPart part_;
  const c10::Device device_;
  const PartLinks links_;
  Replica replica_;
  std::map<int, MicroBatch> under_way_;
  int64_t gradients_received_ = 0;
};

}  // namespace lockstep::parallel
