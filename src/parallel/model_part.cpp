#include "parallel/model_part.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "lockstep/error.h"
#include "parallel/layer_uses.h"
#include "parallel/recompute.h"

namespace lockstep::parallel {
namespace {

bool trains_something(const torch::nn::Module& module) {
  return std::ranges::any_of(module.parameters(), [](const torch::Tensor& parameter) {
    return parameter.requires_grad();
  });
}

}  // namespace

ModelPart::ModelPart(std::shared_ptr<Model> model) : model_(model), module_(std::move(model)) {}

ModelPart::ModelPart(std::shared_ptr<SequentialModel> model, Range layers, Activations activations)
    : model_(model),
      layers_(watched_layers(*model, layers)),
      activations_(activations),
      module_(module_of(*model, layers)),
      first_(layers.begin == 0),
      last_(layers.end == static_cast<int64_t>(model->layers().size())) {
  for (int64_t i = layers.begin; i < layers.end; ++i)
    buffers_.push_back(module_of(*model, {i, i + 1})->buffers());
}

Tensors ModelPart::forward(const Tensors& inputs) const {
  if (layers_.empty()) return model_->forward(inputs);
  Tensors x = inputs;
  for (size_t i = 0; i < layers_.size(); ++i)
    x = activations_ == Activations::kept ? layers_[i].forward(x)
                                          : recomputed(layers_[i], buffers_[i], x);
  return x;
}

c10::Device ModelPart::device() const {
  for (const torch::Tensor& parameter : module_->parameters()) return parameter.device();
  for (const torch::Tensor& buffer : module_->buffers()) return buffer.device();
  return c10::kCPU;
}

std::string ModelPart::describe() const {
  if (layers_.empty() || (first_ && last_)) return "the model";
  if (layers_.size() == 1) return fmt::format("layer {}", layers_.front().name);
  return fmt::format("layers {} to {}", layers_.front().name, layers_.back().name);
}

std::shared_ptr<SequentialModel> require_layers(const std::shared_ptr<Model>& model,
                                                const std::string& name) {
  auto sequential = std::dynamic_pointer_cast<SequentialModel>(model);
  if (!sequential)
    throw BadInput(
        "model '{}' cannot be divided into stages, since its forward() is not a sequence of "
        "layers: derive it from lockstep::SequentialModel (lockstep/sequential_model.h) and add "
        "its layers by add_layer, or train without stages",
        name);
  return sequential;
}

void check_parts(const SequentialModel& model, const std::vector<Range>& parts,
                 const pipeline::OptionNames& options, Untrained untrained) {
  struct Owner {
    size_t part;
    std::string what;
  };
  std::map<const void*, Owner> owners;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto module = module_of(model, parts[i]);
    for (const OwnedTensor& each : owned_tensors(*module)) {
      const auto [found, is_new] =
          owners.try_emplace(each.id(), Owner{i, each.what});
      if (is_new || found->second.part == i) continue;
      throw BadInput(
          "{} of part {} and {} of part {} are the same tensor: layers that share weights must be "
          "in one part and cannot be computed again ({}); choose where to divide "
          "the model by {}, or do not share them",
          found->second.what, found->second.part, each.what, i, options.recompute, options.split);
    }
    if (untrained == Untrained::refused && !trains_something(*module))
      throw BadInput(
          "part {} ({} to {}) has no trained parameters: choose where to divide the model by {}", i,
          model.layers()[static_cast<size_t>(parts[i].begin)].name,
          model.layers()[static_cast<size_t>(parts[i].end) - 1].name, options.split);
  }
}

namespace {

// A part may begin with layer i: no layer before it has tensors together with it or a later one.
std::vector<bool> may_begin(const SequentialModel& model) {
  const std::vector<ModelLayer>& layers = model.layers();
  std::vector<bool> may(layers.size(), true);
  std::map<const void*, size_t> last_used;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    for (const OwnedTensor& each : owned_tensors(*module_of(model, {number, number + 1}))) {
      const auto [before, is_new] = last_used.try_emplace(each.id(), i);
      for (size_t joined = before->second + 1; joined <= i; ++joined) may[joined] = false;
      before->second = i;
    }
  }
  return may;
}

}  // namespace

std::vector<Range> blocks_of(const SequentialModel& model) {
  const std::vector<bool> may = may_begin(model);
  const auto trains = [&](Range layers) {
    return trains_something(*module_of(model, layers));
  };
  const auto layers = static_cast<int64_t>(may.size());
  std::vector<Range> blocks;
  for (int64_t begin = 0; begin < layers;) {
    int64_t end = begin + 1;
    while (end < layers && !may[static_cast<size_t>(end)]) ++end;
    if (blocks.empty() || (trains(blocks.back()) && trains({begin, end})))
      blocks.push_back({begin, end});
    else
      blocks.back().end = end;
    begin = end;
  }
  return blocks;
}

void release_others(Model& model, const std::vector<ModelPart>& kept) {
  std::set<const void*> own;
  for (const ModelPart& part : kept)
    for (const OwnedTensor& each : owned_tensors(part.module()))
      own.insert(each.id());
  for (OwnedTensor& each : owned_tensors(model))
    if (!own.contains(each.id()))
      each.tensor.set_data(torch::empty({0}, each.tensor.options().requires_grad(false)));
}

}  // namespace lockstep::parallel
