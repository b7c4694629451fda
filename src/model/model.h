#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/nn.h"

namespace lockstep::model {

struct LayerKernel {
  std::string layer;
  std::string served_by;
};

/// A network that maps a batch of samples to one score per class.
class Model : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor x) = 0;

  /// Who served its convolutions in the last call, by their names: "winograd", "direct" or "torch".
  virtual std::vector<LayerKernel> kernels() const { return {}; }
};

struct ModelOptions {
  /// One of model_names().
  std::string name = "convnet";
  /// One sample's dimensions, channels first.
  std::vector<int64_t> input;
  int64_t classes = 10;
  /// Residual nets: start the last BatchNorm of each block at zero, so that every block begins as
  /// the identity (helps large batches).
  bool zero_gamma = false;
  nn::Kernels kernels = nn::Kernels::fused;
  /// Determines the initial weights.
  uint64_t seed = 1;
};

/// Builds a model with its initial weights. Throws BadInput for an unknown name, or where the
/// input's dimensions do not suit the model.
std::shared_ptr<Model> make_model(const ModelOptions& options);

std::vector<std::string> model_names();

/// What a recipe's train.kernels, "fused" or "torch", means.
nn::Kernels kernels_named(const std::string& name);

}  // namespace lockstep::model
