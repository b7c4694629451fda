#include "parallel/memory_groups.h"

#include <torch/types.h>

#include <algorithm>

namespace lockstep::parallel {
namespace {

struct Extent {
  const std::byte* begin;
  const std::byte* end;
  const void* tensor;
};

Extent extent_of(const at::Tensor& tensor) {
  int64_t elements = 1;
  for (int64_t i = 0; i < tensor.dim(); ++i) elements += (tensor.size(i) - 1) * tensor.stride(i);
  const auto* const begin = static_cast<const std::byte*>(tensor.data_ptr());
  return {begin, begin + elements * static_cast<int64_t>(tensor.element_size()),
          tensor.unsafeGetTensorImpl()};
}

}  // namespace

MemoryGroups::MemoryGroups(const std::vector<at::Tensor>& tensors) {
  std::vector<Extent> extents;
  size_t groups = 0;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined() && tensor.has_storage() && tensor.numel() > 0)
      extents.push_back(extent_of(tensor));
    else
      groups_.try_emplace(tensor.unsafeGetTensorImpl(), groups++);
  std::ranges::sort(extents, {}, &Extent::begin);
  const std::byte* end = nullptr;
  for (const Extent& extent : extents) {
    if (extent.begin >= end) ++groups;
    end = std::max(end, extent.end);
    groups_.try_emplace(extent.tensor, groups);
  }
}

}  // namespace lockstep::parallel
