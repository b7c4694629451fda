#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/batch.h"
#include "lockstep/dataset.h"
#include "lockstep/nn.h"
#include "lockstep/options.h"

namespace lockstep {

/// A network that `lockstep train` can train: a torch::nn::Module whose forward() maps named
/// tensors to named tensors. Register parameters, buffers and modules as usual; checkpoints use
/// their names. Update buffers in place (copy_, add_, ...): a tensor that is only assigned to a
/// member is not registered.
///
///     class Line : public lockstep::Model {
///      public:
///       explicit Line(const lockstep::ModelOptions& options)
///           : fc_(register_module("fc", torch::nn::Linear(options.input_size(),
///                                                         options.output_size()))) {}
///       lockstep::Tensors forward(const lockstep::Tensors& inputs) override {
///         return fc_(inputs.only().flatten(1));
///       }
///
///      private:
///       torch::nn::Linear fc_;
///     };
class Model : public torch::nn::Module {
 public:
  /// Computes the outputs, which the objective compares with the targets. Random numbers from
  /// LibTorch's default generator do not depend on the number of workers.
  virtual Tensors forward(const Tensors& inputs) = 0;

  /// Which kernel computes a layer.
  struct LayerKernel {
    std::string layer;      ///< its name in the model
    std::string served_by;  ///< "winograd", "packed", "direct" or "torch"
  };
  /// The kernels of the last forward pass by layer, for a run's events.
  virtual std::vector<LayerKernel> kernels() const { return {}; }
};

/// Passed to the function that makes a model.
struct ModelOptions {
  std::string name;                          ///< the recipe's model.name
  std::vector<Field> inputs;                 ///< fields of the data set
  std::vector<Field> outputs;                ///< fields that the objective expects
  nn::Kernels kernels = nn::Kernels::fused;  ///< the recipe's train.kernels
  Options options;                           ///< the recipe's [model.options]

  /// The shape of the only input. Throws BadInput if there are several.
  const Shape& input() const;
  /// Number of elements of the only input of a sample. Throws BadInput if there are several.
  int64_t input_size() const;
  /// Number of elements of the only output of a sample. Throws BadInput if there are several.
  int64_t output_size() const;
};

}  // namespace lockstep
