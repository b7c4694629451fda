#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace lockstep::train {

/// Moves a model's parameters into one contiguous piece of memory and their gradients into another,
/// in the order of the model's names. The model goes on using them: each parameter and its `.grad`
/// become views. An update is then one pass, and a gradient needs no gathering.
class FlatParameters {
 public:
  struct Parameter {
    std::string name;
    std::vector<int64_t> shape;
    int64_t begin;
    int64_t end;
  };

  explicit FlatParameters(torch::nn::Module& model);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::span<float> values() { return view(values_); }
  std::span<float> gradients() { return view(gradients_); }
  void zero_gradients() { gradients_.zero_(); }

  /// How many numbers are learned (the memory has a little padding besides).
  int64_t count() const;

  /// One section per parameter; one-dimensional ones decay only if asked.
  std::vector<optim::Section> sections(bool decay_bias_and_norm) const;

 private:
  static std::span<float> view(torch::Tensor& memory) {
    return {memory.data_ptr<float>(), static_cast<size_t>(memory.numel())};
  }

  std::vector<Parameter> parameters_;
  torch::Tensor values_;
  torch::Tensor gradients_;
};

}  // namespace lockstep::train
