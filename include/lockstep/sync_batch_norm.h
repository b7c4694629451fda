#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include "lockstep/world.h"

namespace lockstep::nn {

/// BatchNorm with statistics over the batches of all workers: with equal batches on n workers it
/// computes the same as BatchNorm on one batch that is n times as large, forward and backward.
/// Input: N x C x ... Parameters have the names of BatchNorm's. In training, every forward and
/// backward pass is a collective. A worker's batch may be empty; if all are, the running statistics
/// do not change.
///
///     lockstep::nn::SyncBatchNorm norm(64, world);
class SyncBatchNormImpl : public torch::nn::Cloneable<SyncBatchNormImpl> {
 public:
  /// With the default options of BatchNorm.
  SyncBatchNormImpl(int64_t features, World world)
      : SyncBatchNormImpl(torch::nn::BatchNormOptions(features), std::move(world)) {}
  /// With options of BatchNorm.
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, World world);

  /// Initialises parameters and buffers again.
  void reset() override;
  /// Prints name and options.
  void pretty_print(std::ostream& stream) const override;
  /// Collective in training mode.
  torch::Tensor forward(const torch::Tensor& input);

  torch::Tensor weight;               ///< the scale; undefined without `affine`
  torch::Tensor bias;                 ///< the offset; undefined without `affine`
  torch::Tensor running_mean;         ///< the same on all workers
  torch::Tensor running_var;          ///< the same on all workers
  torch::Tensor num_batches_tracked;  ///< number of forward passes in training

 private:
  torch::nn::BatchNormOptions options_;
  World world_;
};

TORCH_MODULE(SyncBatchNorm);

}  // namespace lockstep::nn
