#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "optim/optimizer.h"
#include "parallel/gradient_layout.h"
#include "parallel/parameters.h"

namespace lockstep::parallel {

/// Moves a model's parameters into one contiguous piece of memory, laid out as their gradients are.
/// The model goes on using them: each becomes a view. An update is then one pass over both.
class FlatParameters {
 public:
  struct Parameter {
    std::string name;
    std::vector<int64_t> shape;
    int64_t begin;  ///< in floats
    int64_t end;
  };

  /// Throws BadInput for a parameter that is not float32.
  FlatParameters(const Parameters& parameters, const GradientLayout& layout);

  /// In the order in which they lie.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::span<float> values() {
    return {values_.data_ptr<float>(), static_cast<size_t>(values_.numel())};
  }

  /// How many numbers are learned (the memory has a little padding besides).
  int64_t count() const;

  /// One section per parameter; one-dimensional ones decay only if asked.
  std::vector<optim::Section> sections(bool decay_bias_and_norm) const;

 private:
  std::vector<Parameter> parameters_;
  torch::Tensor values_;
};

}  // namespace lockstep::parallel
