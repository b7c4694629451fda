#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/batch.h"

namespace lockstep::parallel {

/// A name of a tensor, of which one may have several.
struct TensorName {
  static constexpr int64_t kUndefined = -1;

  std::string name;
  int64_t tensor = kUndefined;  ///< its number
};

/// Named tensors without the undefined ones, and each of them once, in the order of their first
/// names. A tensor with two names must remain one behind a boundary of graphs, so that it has one
/// gradient.
struct DistinctTensors {
  DistinctTensors() = default;
  explicit DistinctTensors(const Tensors& all);

  std::vector<at::Tensor> tensors;
  std::vector<TensorName> names;
};

/// Tensors under these names.
Tensors named(const std::vector<TensorName>& names, const std::vector<at::Tensor>& tensors);

}  // namespace lockstep::parallel
