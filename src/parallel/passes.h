#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "parallel/grid.h"
#include "parallel/pipeline_part.h"
#include "pipeline/schedule.h"

namespace lockstep::parallel {

/// What the passes of one step compute: the objective of a data set's samples, or the functions of
/// a user's program.
class Passes {
 public:
  virtual ~Passes() = default;

  /// A micro-batch without samples is neither computed nor sent, but counted.
  virtual bool has_samples(int micro_batch) const = 0;
  /// For random numbers in forward passes. Depends on the step and on the piece of its batch, so
  /// that they do not depend on who computes the piece, and when.
  virtual uint64_t seed(int64_t piece) const = 0;
  /// For the first part (inputs) and the last one (targets).
  virtual Batch samples(PipelinePart& part, int micro_batch) = 0;
  virtual Tensors outputs(PipelinePart& part, const Tensors& inputs, int micro_batch) = 0;
  /// Of the last part's outputs.
  virtual Loss loss(const MicroBatch& own, int micro_batch) = 0;
  /// From the loss, or PipelinePart::backward_from_gradients.
  virtual void backward(PipelinePart& part, int micro_batch) = 0;
  /// After the backward pass of the last part, also if there are no samples.
  virtual void score(PipelinePart& part, int micro_batch) = 0;
  /// For the worker with the last part: joined, bit by bit, with those of all workers before it.
  virtual int64_t notes() const { return 0; }
};

/// Performs an action of a schedule: the one place that knows what actions do.
void perform(const pipeline::Action& action, PipelinePart& part, Passes& passes);

/// What this worker does in a step, in order: the actions of its stage or of all stages; or, where
/// it has the model on `devices` (see DeviceMirrors), those of all of them.
std::vector<pipeline::Action> actions_of(const std::string& schedule, const Grid& grid,
                                         int micro_batches, size_t devices = 0);

/// Scales the gradients of all parts so that the norm of the whole model's is at most `largest`.
/// `positions` are those of the whole model's parameters, by name: squares are added in that order.
/// Returns the norm before. Collective between the workers of a pipeline.
double clip_gradients(const std::vector<PipelinePart*>& parts,
                      const std::map<std::string, size_t>& positions, Grid& grid, double largest);

}  // namespace lockstep::parallel
