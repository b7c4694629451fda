#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "lockstep/batch.h"
#include "parallel/autograd_node.h"

namespace lockstep::parallel {

/// Tensors with which a piece of a model's graph begins, and their gradients. These have the
/// strides that autograd computes them in, as inside a graph: LibTorch copies the gradient of a
/// leaf into the leaf's strides, and its kernels may have other bits for others. Unlike leaves,
/// these tensors may be changed in place by layers. A tensor with two names is one here, too.
class GraphInputs {
 public:
  GraphInputs() = default;
  /// In the same memory, without history. Those that require a gradient do so here, too.
  explicit GraphInputs(const Tensors& tensors);

  const Tensors& tensors() const { return tensors_; }
  /// After a backward pass, by number among DistinctTensors: of a tensor that requires none, or
  /// that nothing depended on, undefined.
  at::Tensor gradient(size_t index) const;
  /// Of those distinct tensors that require one.
  Tensors gradients() const;

 private:
  class GradientNode;

  Tensors tensors_;
  std::vector<NodePointer> nodes_;  ///< by distinct tensor; nullptr: no gradient is required
};

}  // namespace lockstep::parallel
