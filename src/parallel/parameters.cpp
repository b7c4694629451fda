#include "parallel/parameters.h"

#include <ATen/MemoryOverlap.h>

#include <algorithm>

#include "lockstep/error.h"

namespace lockstep::parallel {

Parameters trained_parameters(const torch::nn::Module& model) {
  Parameters parameters;
  for (const auto& item : model.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    const bool known = std::any_of(parameters.tensors.begin(), parameters.tensors.end(),
                                   [&](const auto& other) { return other.is_same(item.value()); });
    if (known) continue;
    if (at::has_internal_overlap(item.value()) == at::MemOverlap::Yes)
      throw BadInput(
          "parameter '{}' is expanded, so that its elements share memory; register a .clone()",
          item.key());
    parameters.names.push_back(item.key());
    parameters.tensors.push_back(item.value());
  }
  return parameters;
}

}  // namespace lockstep::parallel
