#include "parallel/changes_in_place.h"

#include <torch/types.h>

namespace lockstep::parallel {
namespace {

// LibTorch does not count versions of tensors that were made in inference mode.
int64_t version_of(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.is_inference() ? static_cast<int64_t>(tensor._version()) : 0;
}

}  // namespace

ChangesInPlace::ChangesInPlace(const Tensors& tensors) : tensors_(tensors) {
  for (const auto& [name, tensor] : tensors) versions_.push_back(version_of(tensor));
}

std::optional<std::string> ChangesInPlace::found() const {
  auto before = versions_.begin();
  for (const auto& [name, tensor] : tensors_)
    if (version_of(tensor) != *before++) return name;
  return std::nullopt;
}

}  // namespace lockstep::parallel
