#include "lockstep/sequential_model.h"

#include <fmt/format.h>

namespace lockstep {

Tensors SequentialModel::forward(const Tensors& inputs) {
  Tensors x = inputs;
  for (const ModelLayer& layer : layers_) x = layer.forward(x);
  return x;
}

void SequentialModel::add_layer(std::string name, std::vector<std::string> uses,
                                std::function<Tensors(const Tensors&)> forward) {
  layers_.push_back({std::move(name), std::move(uses), std::move(forward)});
}

void SequentialModel::add_layers(const std::string& name, const torch::nn::Sequential& modules) {
  int64_t number = 0;
  for (const auto& child : modules->named_children()) {
    const std::string full = fmt::format("{}.{}", name, child.key());
    torch::nn::AnyModule module = *(modules->begin() + number++);
    add_layer(full, {full}, [module](const Tensors& inputs) mutable {
      return Tensors(module.forward(inputs.only()));
    });
  }
}

}  // namespace lockstep
