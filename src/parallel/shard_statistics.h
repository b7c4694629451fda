#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "parallel/sharded_vector.h"

namespace lockstep::parallel {

/// A model's buffers (BatchNorm's running statistics) where a step is computed shard by shard:
/// every shard begins with what the step began with, and the step ends with the mean over the
/// shards that have samples. What is neither float32 nor float64 (how many batches were seen, say)
/// ends as shard 0 leaves it, which always has some. Both follow from the shards alone, not from
/// who computes which. A model without buffers costs nothing.
class ShardStatistics {
 public:
  ShardStatistics(torch::nn::Module& model, const collective::Shards& shards,
                  collective::Communicator& group);

  /// Around every shard's forward pass.
  void begin_pass(int pass);
  enum class Shard { has_samples, is_empty };
  void end_pass(int pass, Shard shard);

  /// After the last pass; then wait. So many shards of all workers had samples.
  void start();
  void finish(int64_t shards_with_samples);

  /// Buffers are again what the step began with.
  void roll_back();

 private:
  // Buffers in one piece of memory; the model's are views. Added up as if they were `Value`s.
  template <typename Value>
  struct FlatBuffers {
    FlatBuffers(std::vector<torch::Tensor> tensors, const collective::Shards& shards,
                collective::Communicator& group);
    void give(int pass);          ///< what the shard leaves
    void give_nothing(int pass);  ///< zeros
    void take_sum();
    void take_mean(int64_t shards);

    torch::Tensor values;  ///< as bytes
    torch::Tensor before;  ///< the step
    ShardedVector<Value> sum;
    collective::Pending pending;
  };
  template <typename Value>
  using Some = std::unique_ptr<FlatBuffers<Value>>;

  template <typename Action>
  void for_each(const Action& action);

  const int64_t first_shard_;  ///< of this worker's
  Some<float> floats_;
  Some<double> doubles_;
  Some<int64_t> others_;  ///< whatever they are, eight bytes at a time
};

}  // namespace lockstep::parallel
