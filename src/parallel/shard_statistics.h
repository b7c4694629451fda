#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "parallel/flat_state.h"
#include "parallel/sharded_vector.h"

namespace lockstep::parallel {

/// Handles a model's buffers (BatchNorm's running statistics) when a step is computed shard by
/// shard: every shard starts from the buffers at the start of the step, and the step ends with the
/// mean over the shards that have samples. Buffers other than float32 and float64 (the number of
/// batches, say) end as shard 0, which always has samples, leaves them. So the result depends only
/// on the shards, not on which worker computes them. Does nothing for a model without buffers.
class ShardStatistics {
 public:
  ShardStatistics(torch::nn::Module& model, const collective::Shards& shards,
                  collective::Communicator& group);

  /// Call these around every shard's forward pass.
  void begin_pass(int pass);
  enum class Shard { has_samples, is_empty };
  void end_pass(int pass, Shard shard);

  /// After the last pass: starts the all-reduce, and waits for it. `shards_with_samples` counts
  /// those of all workers.
  void start();
  void finish(int64_t shards_with_samples);

  /// Restores the buffers to their state at the start of the step.
  void roll_back();

 private:
  // Buffers in contiguous memory, of which the model's are views. Added up as `Value`s.
  template <typename Value>
  struct FlatBuffers {
    FlatBuffers(std::vector<StateTensor> buffers, const collective::Shards& shards,
                collective::Communicator& group);
    /// Copies buffers that were replaced (by set_data, or torch::load) back into `values`.
    void collect();
    void give(int pass);          ///< adds the buffers as the shard left them
    void give_nothing(int pass);  ///< adds zeros
    void take_sum();
    void take_mean(int64_t shards);

    std::vector<PlacedTensor> placed;  ///< in `values`
    torch::Tensor values;              ///< as bytes
    torch::Tensor before;              ///< at the start of the step
    ShardedVector<Value> sum;
    collective::Pending pending;
  };
  template <typename Value>
  using Some = std::unique_ptr<FlatBuffers<Value>>;

  template <typename Action>
  void for_each(const Action& action);

  const int64_t first_shard_;  ///< of this worker
  Some<float> floats_;
  Some<double> doubles_;
  Some<int64_t> others_;  ///< of any other type, as eight bytes at a time
};

}  // namespace lockstep::parallel
