#pragma once

#include <memory>
#include <vector>

#include "parallel/flat_optimizer.h"
#include "parallel/pipeline_part.h"
#include "recipe/recipe.h"

namespace lockstep::train {

using parallel::MicroBatch;

/// A part of the model on this worker, with its gradients, optimizer and the micro-batches under
/// way.
class TrainedPart : public parallel::PipelinePart {
 public:
  /// Moves the part's parameters into contiguous memory. `on_gradient` is called as by Replica.
  /// `mirrors` are the part on other devices of this worker, if there are any. Collective.
  TrainedPart(const Recipe& recipe, parallel::ModelPart part, parallel::PartLinks links,
              const World& replicas, const collective::Shards& shards,
              parallel::Replica::OnGradient on_gradient,
              std::shared_ptr<parallel::DeviceMirrors> mirrors);

  parallel::FlatOptimizer& optimizer() { return optimizer_; }

  /// By parameter: 1, or 0 if it never got a gradient on this worker.
  std::vector<double>& got_gradient() { return got_gradient_; }

 private:
  parallel::FlatOptimizer optimizer_;
  std::vector<double> got_gradient_;
};

}  // namespace lockstep::train
