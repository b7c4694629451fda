#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include "lockstep/world.h"

namespace lockstep::nn {

/// BatchNorm whose statistics are those of all workers' batches together: with as many samples on
/// each of n workers it does what BatchNorm does on one batch n times as large, forwards and
/// backwards. Takes N x C x ..., names its parameters as BatchNorm does. Every forward and backward
/// pass in training is a collective. Workers may have no samples; if none has any, statistics stay.
///
///     lockstep::nn::SyncBatchNorm norm(64, world);
class SyncBatchNormImpl : public torch::nn::Cloneable<SyncBatchNormImpl> {
 public:
  /// With LibTorch's defaults for BatchNorm.
  SyncBatchNormImpl(int64_t features, World world)
      : SyncBatchNormImpl(torch::nn::BatchNormOptions(features), std::move(world)) {}
  /// With options as for BatchNorm.
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, World world);

  /// Makes parameters and buffers anew.
  void reset() override;
  /// Writes what it is in a line.
  void pretty_print(std::ostream& stream) const override;
  /// In training a collective.
  torch::Tensor forward(const torch::Tensor& input);

  torch::Tensor weight;               ///< as BatchNorm's, like all that follow
  torch::Tensor bias;                 ///< undefined without `affine`, as `weight`
  torch::Tensor running_mean;         ///< the same on all workers
  torch::Tensor running_var;          ///< the same on all workers
  torch::Tensor num_batches_tracked;  ///< steps in training

 private:
  torch::nn::BatchNormOptions options_;
  World world_;
};

TORCH_MODULE(SyncBatchNorm);

}  // namespace lockstep::nn
