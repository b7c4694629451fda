#include "parallel/packed_tensor.h"

#include <torch/types.h>

#include <algorithm>
#include <vector>

namespace lockstep::parallel {
namespace {

// Without the repetitions in expanded dimensions.
std::vector<int64_t> sizes_once(at::IntArrayRef sizes, at::IntArrayRef strides) {
  std::vector<int64_t> once = sizes.vec();
  for (size_t i = 0; i < once.size(); ++i)
    if (strides[i] == 0 && once[i] > 1) once[i] = 1;
  return once;
}

bool has_gaps(at::IntArrayRef sizes, at::IntArrayRef strides) {
  std::vector<size_t> dimensions;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return false;
    if (sizes[i] > 1) dimensions.push_back(i);
  }
  std::ranges::sort(dimensions, {}, [&](size_t i) { return strides[i]; });
  int64_t next = 1;
  for (const size_t i : dimensions) {
    if (strides[i] != next) return true;
    next *= sizes[i];
  }
  return false;
}

}  // namespace

at::Tensor packed(const at::Tensor& tensor) {
  const std::vector<int64_t> sizes = sizes_once(tensor.sizes(), tensor.strides());
  const at::Tensor once =
      tensor.detach().as_strided(sizes, tensor.strides()).resolve_conj().resolve_neg();
  if (has_gaps(sizes, tensor.strides())) return once.contiguous().view({-1});
  return once.as_strided({once.numel()}, {1});
}

at::Tensor unpacked(const at::Tensor& elements, at::IntArrayRef sizes, at::IntArrayRef strides) {
  const std::vector<int64_t> once = sizes_once(sizes, strides);
  if (!has_gaps(once, strides)) return elements.as_strided(sizes, strides);
  const at::Tensor memory = at::empty_strided(once, strides, elements.options());
  memory.copy_(elements.view(once));
  return memory.as_strided(sizes, strides);
}

at::Tensor copied(const at::Tensor& tensor, c10::Device device) {
  const at::Tensor elements =
      packed(tensor).to(tensor.options().device(device).requires_grad(false),
                        /*non_blocking=*/false, /*copy=*/true);
  return unpacked(elements, tensor.sizes(), tensor.strides());
}

}  // namespace lockstep::parallel
