#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/device_replicas.h"
#include "parallel/autograd_node.h"

namespace lockstep::parallel {

/// Waits until the devices have computed all that this thread's current streams were asked for.
void wait_for(const std::vector<c10::Device>& devices);

/// What the reduction of gradients has moved, counted by the threads of autograd.
class ReductionCount {
 public:
  explicit ReductionCount(DataParallelOptions::Times times) : times_(times) {}

  void reset();
  void add_bytes(int64_t bytes) { bytes_ += bytes; }
  int64_t bytes() const { return bytes_; }
  double seconds() const { return 1e-9 * static_cast<double>(nanoseconds_.load()); }

  /// Calls `action`, which copies or computes on these devices, and adds its time.
  template <typename Action>
  auto timed(const std::vector<c10::Device>& devices, const Action& action);

 private:
  const DataParallelOptions::Times times_;
  std::atomic<int64_t> bytes_ = 0;
  std::atomic<int64_t> nanoseconds_ = 0;
};

/// Makes backward passes add the gradients of a model's replicas.
class GradientSums {
 public:
  using Tensors = std::vector<at::Tensor>;

  /// `parameters` are those of the model on each device, in the same order; the first are the
  /// model's own.
  GradientSums(const std::vector<Tensors>& parameters, std::shared_ptr<ReductionCount> count);

  /// From now on what the replicas compute sends its gradients to the sums. Call it before each
  /// forward pass in which gradients are recorded.
  void connect();

  /// While it exists, so does what the model itself computes; after `connect`.
  class OnFirstDevice {
   public:
    explicit OnFirstDevice(const GradientSums& sums);
    ~OnFirstDevice();
    OnFirstDevice(const OnFirstDevice&) = delete;
    OnFirstDevice& operator=(const OnFirstDevice&) = delete;

   private:
    const GradientSums& sums_;
  };

 private:
  struct Parameter {
    at::Tensor original;
    std::vector<Tensors> copies;  ///< by device; several if one was registered under several names
    NodePointer accumulator = nullptr;       ///< LibTorch's, into `original.grad()`
    std::vector<NodePointer> branches = {};  ///< by device
    std::vector<int64_t> sizes = {};         ///< when the branches were made
  };

  void make_branches(Parameter& parameter) const;

  std::vector<Parameter> parameters_;
  const std::shared_ptr<ReductionCount> count_;
};

}  // namespace lockstep::parallel
