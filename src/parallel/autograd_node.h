#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace lockstep::parallel {

/// LibTorch's pointer to a node of autograd's graph: std::shared_ptr, or its own in newer versions.
using NodePointer =
    decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

template <typename Made, typename... Arguments>
NodePointer make_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<NodePointer, std::shared_ptr<torch::autograd::Node>>)
    return std::make_shared<Made>(std::forward<Arguments>(arguments)...);
  else
    return c10::make_intrusive<Made>(std::forward<Arguments>(arguments)...);
}

template <typename Node>
std::weak_ptr<Node> weak(const std::shared_ptr<Node>& node) {
  return node;
}
template <typename Node>
c10::weak_intrusive_ptr<Node> weak(const c10::intrusive_ptr<Node>& node) {
  return c10::weak_intrusive_ptr<Node>(node);
}

/// The node to which backward passes send a leaf's gradient; LibTorch does not keep it alive. With
/// nullptr, LibTorch makes another one.
inline void set_accumulator(const at::Tensor& leaf, const NodePointer& node) {
  torch::autograd::impl::set_grad_accumulator(leaf, weak(node));
}

}  // namespace lockstep::parallel
