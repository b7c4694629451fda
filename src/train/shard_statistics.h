#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "parallel/sharded_vector.h"

namespace lockstep::train {

/// A model's buffers (BatchNorm's running statistics) where a step is computed shard by shard:
/// every shard begins with what the step began with, and the step ends with the mean over shards.
/// Whole numbers (how many batches were seen) end as the first shard leaves them. A model without
/// buffers costs nothing.
class ShardStatistics {
 public:
  ShardStatistics(torch::nn::Module& model, const collective::Shards& shards,
                  collective::Communicator& group);

  /// Around every shard's forward pass.
  void begin_pass(int pass);
  void end_pass(int pass);

  /// After the last pass; then wait.
  void start();
  void finish();

 private:
  int64_t count_ = 0;
  std::vector<torch::Tensor> whole_numbers_;
  std::vector<torch::Tensor> whole_before_;
  torch::Tensor floats_;  ///< all buffers of floats; the model's are views
  torch::Tensor before_;
  std::unique_ptr<parallel::ShardedVector<float>> sum_;
  collective::Pending pending_;
};

}  // namespace lockstep::train
