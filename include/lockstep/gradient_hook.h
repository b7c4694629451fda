#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/world.h"

namespace lockstep {

namespace parallel {
class Replica;
}

/// The type that gradients are rounded to before they are sent to other workers.
enum class Compress {
  none,  ///< not rounded
  f16,   ///< half precision (IEEE 754)
  bf16,  ///< bfloat16
};

/// A bucket of gradients that is about to be reduced.
struct GradientBucket {
  size_t index = 0;  ///< number of the bucket, in the order of reduction
  /// All gradients, one after another; each begins at a multiple of 64 bytes.
  torch::Tensor values;
  std::vector<torch::Tensor> gradients;  ///< views of `values` in the shapes of parameters
  /// Indices of the parameters among the model's trained parameters. Buckets are rebuilt after the
  /// first step but these indices stay valid: store state of your hook by them.
  std::vector<size_t> parameters;
  std::vector<std::string> names;  ///< of these parameters, in the model
};

/// Replaces the all-reduce of gradients, for example to send fewer bytes. A hook belongs to one
/// DistributedDataParallel; using it in a second one throws BadInput.
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

  /// Replaces the bucket's values by their mean over all workers (or an approximation that is the
  /// same on all workers). Called from a separate thread, for one bucket at a time, in the same
  /// order on all workers. `world` is used only by hooks.
  virtual void reduce(GradientBucket& bucket, World& world) = 0;

 private:
  friend class parallel::Replica;
  bool taken_ = false;
};

/// PowerSGD (Vogels et al., 2019): a matrix of gradients is sent as the product of two matrices of
/// low rank, and the approximation error is added to the next step's gradients (error feedback).
/// Vectors, and matrices that would not become smaller, are sent unchanged.
struct PowerSgdOptions {
  int64_t rank = 2;   ///< of the approximation: 1 to 65536
  uint64_t seed = 1;  ///< of the initial matrices; the same on all workers
};

/// A PowerSGD hook, for DdpOptions::hook.
std::unique_ptr<GradientHook> power_sgd(const PowerSgdOptions& options = {});

}  // namespace lockstep
