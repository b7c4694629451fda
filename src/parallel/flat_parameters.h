#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

#include "optim/optimizer.h"
#include "parallel/gradient_layout.h"
#include "parallel/parameters.h"

namespace lockstep::parallel {

/// Moves a model's parameters into contiguous memory with the same layout as their gradients. Each
/// parameter of the model becomes a view of it. An optimizer update is then one pass over both.
class FlatParameters {
 public:
  struct Parameter {
    std::string name;
    std::vector<int64_t> shape;
    int64_t begin;  ///< in floats
    int64_t end;
  };

  /// `memory` is where they are moved to: as many zeros as the layout has room for. Throws BadInput
  /// for a parameter that is not float32.
  FlatParameters(const Parameters& parameters, const GradientLayout& layout, torch::Tensor memory);

  /// In the order of memory.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const torch::Tensor& values() const { return values_; }

  /// Moves parameters whose memory was replaced, as by torch::load, back to their places.
  void collect();

  /// The number of trained values, without padding.
  int64_t count() const;

  /// One section per parameter; one-dimensional parameters decay only if `decay_bias_and_norm`.
  std::vector<optim::Section> sections(bool decay_bias_and_norm) const;

 private:
  struct PlacedParameter {
    torch::Tensor parameter;
    torch::Tensor place;  ///< in `values_`
  };
  std::vector<Parameter> parameters_;
  std::vector<PlacedParameter> placed_;
  torch::Tensor values_;
};

}  // namespace lockstep::parallel
