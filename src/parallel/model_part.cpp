#include "parallel/model_part.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/units.h"
#include "lockstep/error.h"
#include "parallel/layer_uses.h"
#include "parallel/memory_groups.h"
#include "parallel/recompute.h"

namespace lockstep::parallel {
namespace {

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

}  // namespace

ModelPart::ModelPart(std::shared_ptr<Model> model)
    : model_(model), module_(std::move(model)), tensors_(all_tensors_of(*module_)) {}

ModelPart::ModelPart(std::shared_ptr<SequentialModel> model, Range layers, Activations activations)
    : model_(model),
      layers_(watched_layers(*model, layers)),
      activations_(activations),
      module_(module_of(*model, layers)),
      tensors_(all_tensors_of(*module_)),
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

namespace {

// A parameter or buffer that a layer uses and one that a later layer uses, which are the same or
// share memory.
struct Shared {
  size_t layer;
  size_t later;
  OwnedTensor tensor;
  OwnedTensor later_tensor;

  std::string text(const SequentialModel& model) const {
    const std::string& first = model.layers()[layer].name;
    const std::string& second = model.layers()[later].name;
    if (!tensor.tensor.is_same(later_tensor.tensor))
      return fmt::format("{} of layer {} and {} of layer {} share memory", tensor.what, first,
                         later_tensor.what, second);
    return fmt::format(
        "layers {} and {} share {}{}", first, second, tensor.what,
        tensor.what == later_tensor.what ? "" : fmt::format(" ({})", later_tensor.what));
  }
};

// Of each tensor, every layer that uses it and the next one that does.
std::vector<Shared> shared_tensors(const SequentialModel& model) {
  std::vector<Shared> all;
  const MemoryGroups memory(all_tensors_of(model));
  std::map<size_t, std::pair<size_t, OwnedTensor>> last_used;
  for (int64_t i = 0; i < std::ssize(model.layers()); ++i)
    for (const OwnedTensor& each : owned_tensors(*module_of(model, {i, i + 1}))) {
      const auto layer = static_cast<size_t>(i);
      const auto [before, is_new] =
          last_used.try_emplace(memory.of(each.tensor), std::pair(layer, each));
      if (is_new || before->second.first == layer) continue;
      all.push_back({before->second.first, layer, before->second.second, each});
      before->second = {layer, each};
    }
  return all;
}

// "--split 1,4 would do", with parts that are about equally large.
std::string advice_on_split(const SequentialModel& model, size_t parts,
                            const pipeline::OptionNames& options) {
  const std::vector<Range> blocks = blocks_of(model);
  if (parts > blocks.size())
    return fmt::format("at most {} can be made so", plural(std::ssize(blocks), "part"));
  std::vector<double> sizes;
  for (const Range block : blocks) {
    sizes.push_back(0);
    for (const torch::Tensor& each : module_of(model, block)->parameters())
      sizes.back() += static_cast<double>(each.numel());
  }
  std::vector<Range> split = pipeline::balanced_split(sizes, static_cast<int>(parts));
  for (Range& part : split)
    part = {blocks[static_cast<size_t>(part.begin)].begin,
            blocks[static_cast<size_t>(part.end) - 1].end};
  return fmt::format("{} {} would do", options.split, pipeline::to_text(split));
}

std::string layers_text(const SequentialModel& model, Range layers) {
  const std::string& first = model.layers()[static_cast<size_t>(layers.begin)].name;
  const std::string& last = model.layers()[static_cast<size_t>(layers.end) - 1].name;
  return first == last ? fmt::format("layer {}", first)
                       : fmt::format("layers {} to {}", first, last);
}

}  // namespace

void check_parts(const SequentialModel& model, const std::vector<Range>& parts,
                 const pipeline::OptionNames& options) {
  const auto part_of = [&](size_t layer) {
    const auto ends_after = [&](Range part) { return static_cast<int64_t>(layer) < part.end; };
    return std::ranges::find_if(parts, ends_after) - parts.begin();
  };
  const std::string option = fmt::format("{} {}", options.split, pipeline::to_text(parts));
  for (const Shared& shared : shared_tensors(model))
    if (part_of(shared.layer) != part_of(shared.later))
      throw BadInput(
          "{}: {}, but would be in parts {} and {}; layers that share weights must be in one part: "
          "{}",
          option, shared.text(model), part_of(shared.layer), part_of(shared.later),
          advice_on_split(model, parts.size(), options));
  for (size_t i = 0; i < parts.size(); ++i)
    if (!trains_something(*module_of(model, parts[i])))
      throw BadInput("{}: part {} ({}) has no trained parameters, which every part must have: {}",
                     option, i, layers_text(model, parts[i]),
                     advice_on_split(model, parts.size(), options));
}

void check_recomputed(const SequentialModel& model, const pipeline::OptionNames& options) {
  if (const std::vector<Shared> all = shared_tensors(model); !all.empty())
    throw BadInput(
        "{}, so that they cannot be computed again ({}): a layer's gradients must be complete when "
        "it has been computed again; keep activations, or let the layers not share it",
        all.front().text(model), options.recompute);
}

std::vector<Range> blocks_of(const SequentialModel& model) {
  std::vector<bool> may(model.layers().size(), true);  // begin a part
  for (const Shared& shared : shared_tensors(model))
    for (size_t joined = shared.layer + 1; joined <= shared.later; ++joined) may[joined] = false;
  const auto trains = [&](Range layers) { return trains_something(*module_of(model, layers)); };
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
    for (const OwnedTensor& each : owned_tensors(part.module())) own.insert(each.id());
  for (OwnedTensor& each : owned_tensors(model))
    if (!own.contains(each.id()))
      each.tensor.set_data(torch::empty({0}, each.tensor.options().requires_grad(false)));
}

}  // namespace lockstep::parallel
