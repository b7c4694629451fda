#include "parallel/model_part.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "lockstep/error.h"
#include "parallel/memory_groups.h"
#include "parallel/recompute.h"

namespace lockstep::parallel {
namespace {

std::string path_to(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

// Whether `name` is one of `uses`, or inside one of them.
bool is_used(const std::vector<std::string>& uses, const std::string& name) {
  return std::ranges::any_of(uses, [&](const std::string& use) {
    return name == use || (name.starts_with(use) && name[use.size()] == '.');
  });
}

bool contains_used(const std::vector<std::string>& uses, const std::string& name) {
  return std::ranges::any_of(uses,
                             [&](const std::string& use) { return use.starts_with(name + "."); });
}

// A copy of the tree of modules down to those that are used, which are themselves in it, so that
// their parameters have the same names and order.
std::shared_ptr<torch::nn::Module> branches(const torch::nn::Module& tree, const std::string& path,
                                            const std::vector<std::string>& uses) {
  auto copy = std::make_shared<torch::nn::Module>(tree.name());
  for (const auto& item : tree.named_parameters(/*recurse=*/false))
    if (is_used(uses, path_to(path, item.key())))
      copy->register_parameter(item.key(), item.value(), item.value().requires_grad());
  for (const auto& item : tree.named_buffers(/*recurse=*/false))
    if (is_used(uses, path_to(path, item.key()))) copy->register_buffer(item.key(), item.value());
  for (const auto& child : tree.named_children()) {
    const std::string name = path_to(path, child.key());
    if (is_used(uses, name))
      copy->register_module(child.key(), child.value());
    else if (contains_used(uses, name))
      copy->register_module(child.key(), branches(*child.value(), name, uses));
  }
  return copy;
}

std::vector<std::string> all_uses(const std::vector<ModelLayer>& layers) {
  std::vector<std::string> uses;
  for (const ModelLayer& layer : layers)
    uses.insert(uses.end(), layer.uses.begin(), layer.uses.end());
  return uses;
}

std::vector<ModelLayer> layers_in(const SequentialModel& model, Range range) {
  return {model.layers().begin() + range.begin, model.layers().begin() + range.end};
}

struct OwnedTensor {
  std::string what;  ///< "parameter 'fc.weight'"
  std::string name;
  torch::Tensor tensor;
};

std::vector<OwnedTensor> owned_tensors(const torch::nn::Module& module) {
  std::vector<OwnedTensor> all;
  for (const auto& item : module.named_parameters())
    all.push_back({fmt::format("parameter '{}'", item.key()), item.key(), item.value()});
  for (const auto& item : module.named_buffers())
    all.push_back({fmt::format("buffer '{}'", item.key()), item.key(), item.value()});
  return all;
}

std::vector<torch::Tensor> all_tensors_of(const torch::nn::Module& module) {
  std::vector<torch::Tensor> all = module.parameters();
  for (torch::Tensor& buffer : module.buffers()) all.push_back(std::move(buffer));
  return all;
}

bool trains_something(const torch::nn::Module& module) {
  return std::ranges::any_of(module.parameters(), [](const torch::Tensor& parameter) {
    return parameter.requires_grad();
  });
}

void require_known_names(const SequentialModel& model) {
  std::set<std::string> known;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) known.insert(item.key());
  for (const OwnedTensor& tensor : owned_tensors(model)) known.insert(tensor.name);
  for (const ModelLayer& layer : model.layers())
    for (const std::string& use : layer.uses)
      if (!known.contains(use))
        throw BadInput(
            "layer '{}' says that it uses '{}', but the model has no module, parameter or buffer "
            "of that name",
            layer.name, use);
}

}  // namespace

ModelPart::ModelPart(std::shared_ptr<Model> model)
    : model_(model), module_(std::move(model)), tensors_(all_tensors_of(*module_)) {}

ModelPart::ModelPart(std::shared_ptr<SequentialModel> model, Range layers, Activations activations)
    : model_(model),
      layers_(layers_in(*model, layers)),
      activations_(activations),
      module_(branches(*model, "", all_uses(layers_))),
      tensors_(all_tensors_of(*module_)),
      first_(layers.begin == 0),
      last_(layers.end == static_cast<int64_t>(model->layers().size())) {
  for (const ModelLayer& layer : layers_)
    buffers_.push_back(branches(*model, "", layer.uses)->buffers());
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
  require_known_names(model);
  struct Owner {
    size_t part;
    std::string what;
    torch::Tensor tensor;
  };
  const MemoryGroups memory(all_tensors_of(model));
  std::map<size_t, Owner> owners;
  std::set<std::string> used;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto module = branches(model, "", all_uses(layers_in(model, parts[i])));
    for (const OwnedTensor& each : owned_tensors(*module)) {
      used.insert(each.name);
      const auto [found, is_new] =
          owners.try_emplace(memory.of(each.tensor), Owner{i, each.what, each.tensor});
      if (is_new || found->second.part == i) continue;
      throw BadInput(
          "{} of part {} and {} of part {} {}: layers that share weights must be "
          "in one part and cannot be computed again ({}); choose where to divide "
          "the model by {}, or do not share them",
          found->second.what, found->second.part, each.what, i,
          found->second.tensor.is_same(each.tensor) ? "are the same tensor" : "share memory",
          options.recompute, options.split);
    }
    if (untrained == Untrained::refused && !trains_something(*module))
      throw BadInput(
          "part {} ({} to {}) has no trained parameters: choose where to divide the model by {}", i,
          model.layers()[static_cast<size_t>(parts[i].begin)].name,
          model.layers()[static_cast<size_t>(parts[i].end) - 1].name, options.split);
  }
  std::set<const void*> named;  // a tensor goes by the first of its names
  for (const OwnedTensor& each : owned_tensors(model))
    if (named.insert(each.tensor.unsafeGetTensorImpl()).second && !used.contains(each.name))
      throw BadInput(
          "{} belongs to none of the model's layers: name it, or its module, in the `uses` of the "
          "layer that uses it{}",
          each.what,
          owners.contains(memory.of(each.tensor))
              ? fmt::format(" (there {}, which is the same tensor, has only its other name)",
                            owners.at(memory.of(each.tensor)).what)
              : "");
}

namespace {

// A part may begin with layer i: no layer before it has tensors together with it or a later one.
std::vector<bool> may_begin(const SequentialModel& model) {
  const std::vector<ModelLayer>& layers = model.layers();
  const MemoryGroups memory(all_tensors_of(model));
  std::vector<bool> may(layers.size(), true);
  std::map<size_t, size_t> last_used;
  for (size_t i = 0; i < layers.size(); ++i)
    for (const OwnedTensor& each : owned_tensors(*branches(model, "", layers[i].uses))) {
      const auto [before, is_new] = last_used.try_emplace(memory.of(each.tensor), i);
      for (size_t joined = before->second + 1; joined <= i; ++joined) may[joined] = false;
      before->second = i;
    }
  return may;
}

}  // namespace

std::vector<Range> blocks_of(const SequentialModel& model) {
  const std::vector<bool> may = may_begin(model);
  const auto trains = [&](Range layers) {
    return trains_something(*branches(model, "", all_uses(layers_in(model, layers))));
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
      own.insert(each.tensor.unsafeGetTensorImpl());
  for (OwnedTensor& each : owned_tensors(model))
    if (!own.contains(each.tensor.unsafeGetTensorImpl()))
      each.tensor.set_data(torch::empty({0}, each.tensor.options().requires_grad(false)));
}

}  // namespace lockstep::parallel
