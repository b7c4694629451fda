#include "parallel/arrival.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <utility>

#include "parallel/autograd_node.h"

namespace lockstep::parallel {
namespace {

// A node that hands on what it gets, in the thread of its device, when it has got all of it.
struct ArrivalNode : torch::autograd::Node {
  using Node::Node;
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
};

}  // namespace

void arrive_together(std::vector<at::Tensor>& tensors) {
  std::vector<size_t> trained;
  torch::autograd::edge_list edges;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || !tensors[i].requires_grad()) continue;
    trained.push_back(i);
    edges.push_back(torch::autograd::impl::gradient_edge(tensors[i]));
  }
  const NodePointer node = make_node<ArrivalNode>(std::move(edges));
  for (const size_t i : trained) {
    tensors[i] = tensors[i].detach();
    torch::autograd::create_gradient_edge(tensors[i], node);
  }
}

void backward_together(std::vector<at::Tensor> roots, const std::vector<at::Tensor>& gradients) {
  if (roots.empty()) return;
  if (roots.size() > 1) arrive_together(roots);
  torch::autograd::backward(roots, gradients);
}

}  // namespace lockstep::parallel
