#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace lockstep::parallel {

/// A model's trained parameters, in its order; one with several names appears once, under the
/// first. Throws BadInput with the name of one whose elements share memory with each other.
struct Parameters {
  std::vector<std::string> names;
  std::vector<torch::Tensor> tensors;

  size_t size() const { return tensors.size(); }
};
Parameters trained_parameters(const torch::nn::Module& model);

}  // namespace lockstep::parallel
