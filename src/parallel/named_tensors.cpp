#include "parallel/named_tensors.h"

#include <torch/types.h>

#include <utility>

namespace lockstep::parallel {

Tensors moved(const Tensors& all, c10::Device device) {
  std::vector<Tensors::Item> there;
  for (const auto& [name, tensor] : all) there.emplace_back(name, tensor.to(device));
  return Tensors(std::move(there));
}

at::Tensor with_own_version(const at::Tensor& view) {
  return view.is_inference() ? view : view.variable_data();
}

Tensors narrowed(const Tensors& all, int64_t begin, int64_t samples) {
  std::vector<Tensors::Item> parts;
  for (const auto& [name, tensor] : all)
    parts.emplace_back(name, with_own_version(tensor.narrow(0, begin, samples)));
  return Tensors(std::move(parts));
}

Tensors concatenated(const std::vector<Tensors>& pieces) {
  std::vector<Tensors::Item> all;
  for (size_t i = 0; i < pieces.front().size(); ++i) {
    std::vector<torch::Tensor> parts;
    for (const Tensors& piece : pieces) parts.push_back((piece.begin() + i)->second);
    all.emplace_back((pieces.front().begin() + i)->first, torch::cat(parts));
  }
  return Tensors(std::move(all));
}

}  // namespace lockstep::parallel
