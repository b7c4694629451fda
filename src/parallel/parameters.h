#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace lockstep::parallel {

/// A model's parameters that are trained, in its order; one that has several names under its first.
struct Parameters {
  std::vector<std::string> names;
  std::vector<torch::Tensor> tensors;

  size_t size() const { return tensors.size(); }
};
Parameters trained_parameters(const torch::nn::Module& model);

/// Notices what became of a model's parameters since this was made.
class ParameterWatch {
 public:
  explicit ParameterWatch(const torch::nn::Module& model);

  /// Throws BadInput, naming it, for a parameter that has another shape or type now, or that is
  /// trained now and was not.
  void check() const;

 private:
  struct WatchedParameter {
    std::string name;
    torch::Tensor parameter;
    torch::Tensor before;  ///< shape and type alone
    bool trained;
  };
  std::vector<WatchedParameter> items_;
};

}  // namespace lockstep::parallel
