#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "parallel/sharded_vector.h"

namespace lockstep::train {

/// A model's buffers (BatchNorm's running statistics) where a step is computed shard by shard:
/// every shard begins with what the step began with, and the step ends with the mean over the
/// shards that have samples. Whole numbers (how many batches were seen) end as shard 0 leaves them,
/// which always has some. Both follow from the shards alone, not from who computes which. A model
/// without buffers costs nothing.
class ShardStatistics {
 public:
  ShardStatistics(torch::nn::Module& model, const collective::Shards& shards,
                  collective::Communicator& group);

  /// Around every shard's forward pass, in a step of `samples` in all shards together.
  void begin_pass(int pass, int64_t samples);
  void end_pass(int pass);

  /// After the last pass; then wait.
  void start();
  void finish();

  /// Buffers are again what the step began with.
  void take_back();

 private:
  // Buffers of one type in one piece of memory; the model's are views.
  template <typename Value>
  struct Buffers {
    Buffers(std::vector<torch::Tensor> tensors, const collective::Shards& shards,
            collective::Communicator& group);
    void give(int pass);          ///< what the shard leaves
    void give_nothing(int pass);  ///< zeros
    void take_sum();

    torch::Tensor values;
    torch::Tensor before;  ///< the step
    parallel::ShardedVector<Value> sum;
    collective::Pending pending;
  };

  const collective::Shards shards_;
  const int64_t first_shard_;  ///< of this worker's
  std::unique_ptr<Buffers<float>> floats_;
  std::unique_ptr<Buffers<int64_t>> whole_numbers_;

  int64_t samples_ = 0;  ///< of the step under way
};

}  // namespace lockstep::train
