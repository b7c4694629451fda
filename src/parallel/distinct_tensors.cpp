#include "parallel/distinct_tensors.h"

#include <algorithm>
#include <utility>

namespace lockstep::parallel {

DistinctTensors::DistinctTensors(const Tensors& all) {
  for (const auto& [name, tensor] : all) {
    if (!tensor.defined()) {
      names.push_back({.name = name});
      continue;
    }
    const auto found = std::ranges::find_if(
        tensors, [&tensor = tensor](const at::Tensor& known) { return known.is_same(tensor); });
    names.push_back({.name = name, .tensor = found - tensors.begin()});
    if (found == tensors.end()) tensors.push_back(tensor);
  }
}

Tensors named(const std::vector<TensorName>& names, const std::vector<at::Tensor>& tensors) {
  std::vector<Tensors::Item> items;
  for (const auto& [name, tensor] : names)
    items.emplace_back(name, tensor == TensorName::kUndefined
                                 ? at::Tensor()
                                 : tensors[static_cast<size_t>(tensor)]);
  return Tensors(std::move(items));
}

}  // namespace lockstep::parallel
