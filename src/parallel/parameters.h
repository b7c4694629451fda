#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace lockstep::parallel {

/// A model's trained parameters, in its order; one with several names appears once, under the
/// first.
struct Parameters {
  std::vector<std::string> names;
  std::vector<torch::Tensor> tensors;

  size_t size() const { return tensors.size(); }
};
Parameters trained_parameters(const torch::nn::Module& model);

/// Detects changes of a model's parameters since its construction.
class ParameterWatch {
 public:
  explicit ParameterWatch(const torch::nn::Module& model);

  /// Throws BadInput with the parameter's name if its shape or type has changed, or if it is
  /// trained now and was not before.
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
