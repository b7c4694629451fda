#include "parallel/parameters.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "lockstep/error.h"
#include "parallel/tensor_buffer.h"

namespace lockstep::parallel {

Parameters trained_parameters(const torch::nn::Module& model) {
  Parameters parameters;
  for (const auto& item : model.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    const bool known = std::any_of(parameters.tensors.begin(), parameters.tensors.end(),
                                   [&](const auto& other) { return other.is_same(item.value()); });
    if (known) continue;
    parameters.names.push_back(item.key());
    parameters.tensors.push_back(item.value());
  }
  return parameters;
}

ParameterWatch::ParameterWatch(const torch::nn::Module& model) {
  for (const auto& item : model.named_parameters())
    items_.push_back(
        {item.key(), item.value(),
         torch::empty(item.value().sizes(),
                      item.value().options().device(torch::kMeta).requires_grad(false)),
         item.value().requires_grad()});
}

void ParameterWatch::check() const {
  for (const auto& [name, parameter, before, trained] : items_) {
    if (parameter.scalar_type() != before.scalar_type() || parameter.sizes() != before.sizes())
      throw BadInput("parameter '{}' was {} and is {} now; make a new DistributedDataParallel",
                     name, describe(before), describe(parameter));
    if (parameter.requires_grad() && !trained)
      throw BadInput(
          "parameter '{}' was frozen and is unfrozen now, but its gradients would not be reduced; "
          "make a new DistributedDataParallel",
          name);
  }
}

}  // namespace lockstep::parallel
