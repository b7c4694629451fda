#include "parallel/outgoing.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "parallel/distinct_tensors.h"
#include "parallel/packed_tensor.h"

namespace lockstep::parallel {

bool share_storage(const at::Tensor& one, const at::Tensor& other) {
  return one.defined() && other.defined() && one.has_storage() && other.has_storage() &&
         one.numel() > 0 && other.numel() > 0 && one.device() == other.device() &&
         one.storage().data() == other.storage().data();
}

StageMessage outgoing(const ModelPart& part, const Tensors& outputs, const Tensors& read_only) {
  DistinctTensors distinct(outputs);
  std::vector<at::Tensor>& tensors = distinct.tensors;
  std::vector<bool> is_read_only;
  std::vector<size_t> of_model;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto shares = [&](const at::Tensor& other) { return share_storage(tensors[i], other); };
    const auto is_view = [&](const Tensors::Item& item) { return shares(item.second); };
    const bool is_of_model = std::ranges::any_of(part.tensors(), shares);
    if (is_of_model) of_model.push_back(i);
    is_read_only.push_back(is_of_model || std::ranges::any_of(read_only, is_view) ||
                           std::ranges::count_if(tensors, shares) > 1);
  }
  for (const size_t i : of_model)
    tensors[i] =
        copied(tensors[i], tensors[i].device()).set_requires_grad(tensors[i].requires_grad());
  return {.tensors = named(distinct.names, tensors), .read_only = std::move(is_read_only)};
}

}  // namespace lockstep::parallel
