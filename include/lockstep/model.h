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

/// A network that `lockstep train` can train: a torch::nn::Module from named tensors to named
/// tensors. Register parameters, buffers and modules as in any other; a run's checkpoints use their
/// names.
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
  /// What the objective compares with the targets. Random numbers drawn from LibTorch's generator
  /// are the same for any number of workers.
  virtual Tensors forward(const Tensors& inputs) = 0;

  /// Which kernel computed a layer.
  struct LayerKernel {
    std::string layer;      ///< its name in the model
    std::string served_by;  ///< "winograd", "direct" or "torch"
  };
  /// Which kernel served each layer in the last call, for a run's events.
  virtual std::vector<LayerKernel> kernels() const { return {}; }
};

/// What a model is made for.
struct ModelOptions {
  std::string name;                          ///< it was asked for by
  std::vector<Field> inputs;                 ///< of the data set
  std::vector<Field> outputs;                ///< that the objective needs
  nn::Kernels kernels = nn::Kernels::fused;  ///< which ones to use
  Options options;                           ///< the recipe's [model.options]

  /// The shape of the only input. Throws BadInput where there are several.
  const Shape& input() const;
  /// How many numbers the only input of a sample has. Throws BadInput where there are several.
  int64_t input_size() const;
  /// How many numbers the only output of a sample has. Throws BadInput where there are several.
  int64_t output_size() const;
};

}  // namespace lockstep
