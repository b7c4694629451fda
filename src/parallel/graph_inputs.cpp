#include "parallel/graph_inputs.h"

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <utility>

#include "parallel/distinct_tensors.h"

namespace lockstep::parallel {

using torch::autograd::Node;
using torch::autograd::variable_list;

// Where a gradient arrives: nothing comes after it in the backward pass.
class GraphInputs::GradientNode : public Node {
 public:
  variable_list apply(variable_list&& gradients) override {
    gradient_ = std::move(gradients.front());
    return {};
  }
  const at::Tensor& gradient() const { return gradient_; }

 private:
  at::Tensor gradient_;
};

GraphInputs::GraphInputs(const Tensors& tensors) {
  DistinctTensors inputs(tensors);
  for (at::Tensor& input : inputs.tensors) {
    NodePointer node;
    const bool requires_grad = input.requires_grad();
    input = input.detach();
    if (requires_grad) {
      node = make_node<GradientNode>();
      torch::autograd::create_gradient_edge(input, node);
    }
    nodes_.push_back(std::move(node));
  }
  tensors_ = named(inputs.names, inputs.tensors);
}

at::Tensor GraphInputs::gradient(size_t index) const {
  const NodePointer& node = nodes_[index];
  return node ? static_cast<const GradientNode&>(*node).gradient() : at::Tensor();
}

Tensors GraphInputs::gradients() const {
  std::vector<Tensors::Item> items;
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i]) items.emplace_back("", gradient(i));
  return Tensors(std::move(items));
}

}  // namespace lockstep::parallel
