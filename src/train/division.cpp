#include "train/division.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "data/loader.h"
#include "parallel/model_part.h"
#include "pipeline/split.h"
#include "train/batch_tensors.h"

namespace lockstep::train {
namespace {

constexpr int kRounds = 3;  ///< of which each layer's fastest counts

// Inputs of a layer, without history.
Tensors leaves_of(const Tensors& tensors) {
  std::vector<Tensors::Item> leaves;
  for (const auto& [name, tensor] : tensors)
    leaves.emplace_back(name, tensor.detach().set_requires_grad(tensor.is_floating_point()));
  return Tensors(std::move(leaves));
}

// A layer's forward and backward pass. Returns its outputs.
Tensors pass_through(const ModelLayer& layer, const Tensors& inputs) {
  const Tensors outputs = layer.forward(inputs);
  torch::autograd::variable_list roots, gradients;
  for (const auto& [name, output] : outputs) {
    if (!output.requires_grad()) continue;
    roots.push_back(output);
    gradients.push_back(torch::ones_like(output));
  }
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
  return outputs;
}

}  // namespace

std::vector<double> measure_layers(const Recipe& recipe, SequentialModel& model,
                                   const data::TrainingData& data) {
  const std::shared_ptr<const Dataset>& samples = data.splits.train;
  const int64_t shard = std::max<int64_t>(recipe.train.batch / slices_of(recipe), 1);
  data::Loader loader(samples, {.batch = shard, .order = data::SampleOrder::sequential});
  const data::LoadedBatch& loaded = loader.next();
  const Batch batch = to_tensors(loaded, samples->fields(), {0, loaded.whole}, c10::kCPU);
  std::vector<torch::Tensor> buffers;
  for (const torch::Tensor& buffer : model.buffers()) buffers.push_back(buffer.clone());
  std::vector<double> seconds(model.layers().size(), 1e9);
  model.train();
  for (int round = 0; round < kRounds; ++round) {
    Tensors x = batch.inputs;
    for (size_t i = 0; i < seconds.size(); ++i) {
      const Tensors inputs = i == 0 ? x : leaves_of(x);
      const Stopwatch stopwatch;
      x = pass_through(model.layers()[i], inputs);
      seconds[i] = std::min(seconds[i], stopwatch.seconds());
    }
  }
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < buffers.size(); ++i) model.buffers()[i].copy_(buffers[i]);
  for (const torch::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
  return seconds;
}

std::vector<Range> divide(const Recipe& recipe, const std::shared_ptr<Model>& model,
                          const data::TrainingData& data, World& world) {
  const int parts = pipeline_shape(recipe).parts();
  if (parts == 1 && !recipe.parallel.recompute) return {};
  const auto sequential = parallel::require_layers(model, recipe.model.name);
  const auto layers = static_cast<int64_t>(sequential->layers().size());
  std::vector<std::string> names;
  for (const ModelLayer& layer : sequential->layers()) names.push_back(layer.name);
  pipeline::require_enough_layers(names.size(), parts);
  std::string split = recipe.parallel.split;
  if (split.empty() && parts > 1) {
    if (world.rank() == 0)
      split = pipeline::to_text(
          pipeline::balanced_split(measure_layers(recipe, *sequential, data), parts));
    split = world.broadcast(split);
  }
  std::vector<Range> divided = {{0, layers}};
  if (parts > 1) divided = pipeline::parse_split(split, names, parts);
  parallel::check_parts(*sequential, divided);
  if (recipe.parallel.recompute) {  // each layer's gradients are complete when it is computed again
    std::vector<Range> apart;
    for (int64_t i = 0; i < layers; ++i) apart.push_back({i, i + 1});
    parallel::check_parts(*sequential, apart);
  }
  return divided;
}

}  // namespace lockstep::train
