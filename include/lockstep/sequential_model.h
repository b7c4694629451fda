#pragma once

#include <torch/nn/modules/container/sequential.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/model.h"

namespace lockstep {

/// One of the functions that a model's forward pass consists of. A pipeline divides a model between
/// its layers.
struct ModelLayer {
  /// Messages and `--split` call it this.
  std::string name;
  /// The names of all modules, parameters and buffers of the model that it uses; it is refused for
  /// others. Layers on another stage of a pipeline may not use them, too.
  std::vector<std::string> uses;
  /// From what the layer before it returns (the first: the model's inputs) to what the next one
  /// takes (the last: the model's outputs).
  std::function<Tensors(const Tensors&)> forward;
};

/// A model whose forward pass calls one layer after another, so that a pipeline can divide it
/// between devices (`lockstep train --stages 2`). Add layers in the constructor:
///
///     class Mlp : public lockstep::SequentialModel {
///      public:
///       explicit Mlp(const lockstep::ModelOptions& options) {
///         auto fc1 = register_module("fc1", torch::nn::Linear(options.input_size(), 512));
///         add_layer("fc1", {"fc1"}, [fc1](const lockstep::Tensors& inputs) {
///           return torch::relu(fc1->forward(inputs.only().flatten(1)));
///         });
///         add_layer("fc2", register_module("fc2", torch::nn::Linear(512, options.output_size())));
///       }
///     };
///
/// A value that a later layer needs as well, such as a residual, is passed on as a second tensor:
/// layers may take and return several, by name.
class SequentialModel : public Model {
 public:
  /// Calls all layers.
  Tensors forward(const Tensors& inputs) final;

  /// In the order in which they are called.
  const std::vector<ModelLayer>& layers() const { return layers_; }

 protected:
  /// Adds a layer after those that were added before.
  void add_layer(std::string name, std::vector<std::string> uses,
                 std::function<Tensors(const Tensors&)> forward);

  /// Adds a layer that calls a module, which was registered under this name, with its only input.
  template <typename Module>
  void add_layer(const std::string& name, std::shared_ptr<Module> module) {
    add_layer(name, {name}, [module = std::move(module)](const Tensors& inputs) {
      return Tensors(module->forward(inputs.only()));
    });
  }

  /// Adds a layer for each module of `modules`, which was registered under `name`: "net.0", ...
  void add_layers(const std::string& name, const torch::nn::Sequential& modules);

 private:
  std::vector<ModelLayer> layers_;
};

}  // namespace lockstep
