#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/world.h"

namespace lockstep {

namespace parallel {
class Replica;
}

/// What gradients are rounded to before they travel between workers: half the bytes.
enum class Compress {
  none,  ///< nothing: they travel as they are
  f16,   ///< half precision
  bf16,  ///< the upper half of a float
};

/// A bucket of gradients on its way to the other workers.
struct GradientBucket {
  size_t index = 0;                      ///< of the bucket, in the order in which they travel
  torch::Tensor values;                  ///< all of it, one-dimensional
  std::vector<torch::Tensor> gradients;  ///< the same memory, in the parameters' shapes
  /// Whose gradients they are: numbers of trained parameters, in the model's order. They stay when
  /// buckets are cut anew after the first step, so keep by them what outlives a step.
  std::vector<size_t> parameters;
};

/// Replaces the all-reduce of gradients, to send less than all of them. A hook belongs to one
/// DistributedDataParallel, which calls it from a thread of its own; a second one throws BadInput.
///
///     struct Signs : lockstep::GradientHook {
///       void reduce(lockstep::GradientBucket& bucket, lockstep::World& world) override {
///         bucket.values.sign_();
///         world.all_reduce(bucket.values, lockstep::Operation::mean);
///       }
///     };
class GradientHook {
 public:
  virtual ~GradientHook() = default;

  /// Makes `bucket` the mean (or what stands for it) over all workers, the same on each. Called for
  /// one bucket at a time, in the same order on all workers, from a thread of its own; `world` is
  /// for hooks alone.
  virtual void reduce(GradientBucket& bucket, World& world) = 0;

 private:
  friend class parallel::Replica;
  bool taken_ = false;
};

/// PowerSGD (Vogels et al., 2019): a matrix of gradients goes as the product of two thin ones of
/// this rank; what is lost is added to the next step's gradients (error feedback). Vectors, and
/// matrices that would not shrink, go as they are.
struct PowerSgdOptions {
  int64_t rank = 2;   ///< 1 to 65536
  uint64_t seed = 1;  ///< of the first thin matrices: the same on all workers
};

/// A hook that sends gradients by PowerSGD, for DdpOptions::hook.
std::unique_ptr<GradientHook> power_sgd(const PowerSgdOptions& options = {});

}  // namespace lockstep
