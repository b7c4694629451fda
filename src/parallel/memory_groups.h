#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <vector>

namespace lockstep::parallel {

/// Divides tensors into groups. Two are in one group if the addresses between their first and last
/// element overlap, as those of one tensor with two names and of views of each other do.
class MemoryGroups {
 public:
  explicit MemoryGroups(const std::vector<at::Tensor>& tensors);
  /// The number of a tensor's group.
  size_t of(const at::Tensor& tensor) const { return groups_.at(tensor.unsafeGetTensorImpl()); }

 private:
  std::map<const void*, size_t> groups_;
};

}  // namespace lockstep::parallel
