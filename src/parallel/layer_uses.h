#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/range.h"
#include "lockstep/sequential_model.h"

namespace lockstep::parallel {

/// A parameter or buffer of a module, and what messages call it.
struct OwnedTensor {
  std::string what;  ///< "parameter 'fc.weight'"
  std::string name;
  torch::Tensor tensor;

  const void* id() const { return tensor.unsafeGetTensorImpl(); }
};

std::vector<OwnedTensor> owned_tensors(const torch::nn::Module& module);

/// A tree of modules with what these layers list, under the names and in the order of the model.
std::shared_ptr<torch::nn::Module> module_of(const SequentialModel& model, Range layers);

/// A layer's name, with the kind of module that it calls, if it calls one: "3 (BatchNorm1d)".
std::string title_of(const SequentialModel& model, const ModelLayer& layer);

/// Throws BadInput that names a parameter or buffer which no layer lists, or what a layer lists and
/// the model does not have.
void check_uses(const SequentialModel& model);

/// These layers, which throw BadInput where they use a parameter or buffer of the model that they
/// do not list and are not given as a tensor. It costs time in their first pass with gradients, and
/// in the first one without. Errors of LibTorch say in which layer they were thrown.
std::vector<ModelLayer> watched_layers(const SequentialModel& model, Range layers);

}  // namespace lockstep::parallel
