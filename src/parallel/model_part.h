#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/range.h"
#include "lockstep/model.h"
#include "lockstep/sequential_model.h"
#include "pipeline/split.h"

namespace lockstep::parallel {

/// Whether activations between a part's layers are kept for the backward pass, or only each layer's
/// inputs, from which the backward pass computes the rest again.
enum class Activations { kept, recomputed };

/// Consecutive layers of a model, which one stage of a pipeline computes; or a whole model. Parts
/// share parameters and buffers with their model.
class ModelPart {
 public:
  /// All of a model.
  explicit ModelPart(std::shared_ptr<Model> model);
  /// Some layers of it.
  ModelPart(std::shared_ptr<SequentialModel> model, Range layers,
            Activations activations = Activations::kept);

  /// Throws BadInput where a layer uses a parameter or buffer that it does not list.
  Tensors forward(const Tensors& inputs) const;

  /// Its parameters and buffers, under the names that they have in the model.
  torch::nn::Module& module() const { return *module_; }
  /// Both, without their names.
  const std::vector<torch::Tensor>& tensors() const { return tensors_; }

  /// Where it is; the CPU if it has neither parameters nor buffers.
  c10::Device device() const;
  bool is_first() const { return first_; }
  bool is_last() const { return last_; }
  /// "layers conv1 to layer1.1"; "the model", if it is all of it.
  std::string describe() const;

 private:
  const std::shared_ptr<Model> model_;
  const std::vector<ModelLayer> layers_;             ///< none: all of the model
  std::vector<std::vector<torch::Tensor>> buffers_;  ///< by layer
  const Activations activations_ = Activations::kept;
  const std::shared_ptr<torch::nn::Module> module_;
  const std::vector<torch::Tensor> tensors_;
  const bool first_ = true;
  const bool last_ = true;
};

/// The model as one that has layers. Throws BadInput, with what to derive from, if it has none.
std::shared_ptr<SequentialModel> require_layers(const std::shared_ptr<Model>& model,
                                                const std::string& name);

/// Throws BadInput that names layers of different parts which share a parameter or buffer, or a
/// part that trains nothing, and a split that would do. `parts` are ranges of layers.
void check_parts(const SequentialModel& model, const std::vector<Range>& parts,
                 const pipeline::OptionNames& options = {});

/// Throws BadInput that names layers which share a parameter or buffer, so that they cannot be
/// computed again.
void check_recomputed(const SequentialModel& model, const pipeline::OptionNames& options = {});

/// The model's layers, joined to as many blocks as possible of which each trains something and no
/// two have a parameter or buffer together: parts of whole blocks are what check_parts admits.
std::vector<Range> blocks_of(const SequentialModel& model);

/// Frees the memory of the model's parameters and buffers that are in none of `kept`.
void release_others(Model& model, const std::vector<ModelPart>& kept);

}  // namespace lockstep::parallel
