// Measures what a forward and a backward pass of some layers needs, as a training step runs them:
// the same modules, kernels and order, with gradients that are dropped as soon as they are there.
#include "train/pass_meter.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/host.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "device/allocator.h"
#include "lockstep/error.h"
#include "parallel/device_streams.h"
#include "parallel/distinct_tensors.h"
#include "parallel/gradient_hooks.h"
#include "parallel/graph_inputs.h"
#include "parallel/layer_costs.h"
#include "parallel/model_part.h"
#include "parallel/parameters.h"
#include "train/batch_tensors.h"
#include "train/make_model.h"
#include "train/model_facts.h"
#include "train/outputs.h"
#include "train/placement.h"
#include "virtual_devices/accounts.h"

namespace lockstep::train {
namespace {

using parallel::Activations;
using parallel::ModelPart;

constexpr int kUpdates = 3;              ///< of which the fastest counts
constexpr double kEnoughSeconds = 0.25;  ///< passes are repeated until they took as long
constexpr int kMostRounds = 5;
/// Of the memory that this host has left, so that measuring does not make it swap.
constexpr double kUsedOfHost = 0.7;
/// Of that, what models may have that are kept for other passes of as many samples.
constexpr double kKeptOfUsed = 0.25;

Recipe for_one_device(Recipe recipe) {
  recipe.parallel = {};
  recipe.device.memory.clear();
  recipe.train.batch = recipe.train.shards = recipe.train.accumulate = 1;
  validate(recipe);
  return recipe;
}

// Copies without history, of which gradients can be asked.
Tensors received(const Tensors& tensors) {
  parallel::DistinctTensors copies(tensors);
  for (torch::Tensor& tensor : copies.tensors)
    tensor = tensor.detach().clone().set_requires_grad(tensor.requires_grad());
  return named(copies.names, copies.tensors);
}

CallPlace call_place(int64_t samples) {
  return {"the measured pass of", samples, samples};
}

// Inputs of the layer after these, without history.
Tensors outputs_without_gradients(const ModelPart& layers, const Tensors& inputs, int64_t samples) {
  const torch::NoGradGuard no_grad;
  parallel::DistinctTensors leaves(forward_of(layers, inputs, call_place(samples)));
  for (torch::Tensor& tensor : leaves.tensors)
    tensor = tensor.detach().set_requires_grad(tensor.is_floating_point());
  return named(leaves.names, leaves.tensors);
}

MemoryAccount* counted_account(const Recipe& recipe, c10::Device device) {
  if (MemoryAccount* const account = virtual_devices::account_of(device)) return account;
  throw BadInput(
      "device.kind = {}: its memory is not counted, so that nothing can be measured; use cpu or "
      "virtual",
      recipe.device.kind);
}

// A device that has so many bytes more than are in use, until this is destroyed.
class Limited {
 public:
  Limited(MemoryAccount& account, int64_t room) : account_(account) {
    account_.set_limit(account_.figures().in_use + std::max<int64_t>(room, 1));
  }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;
  ~Limited() { account_.set_limit(0); }

 private:
  MemoryAccount& account_;
};

class PassMeter final : public fit::Meter {
 public:
  PassMeter(const Recipe& recipe, std::shared_ptr<const data::TrainingData> data,
            const std::string& devices);

  const fit::ModelFacts& model() const override { return model_; }
  fit::MeasuredPass measure(const fit::Pass& pass, int64_t room) override;
  std::vector<pipeline::LayerCost> layer_costs(const fit::Pass& pass) override;
  double update_seconds(int64_t bytes) override;

 private:
  /// A model whose layers have made one pass each over so many samples, so that their kernels have
  /// what they keep.
  struct Warm {
    std::shared_ptr<Model> model;
    Batch batch;
    std::vector<std::optional<int64_t>> kept;  ///< by layer; nothing: it needs too much
  };

  bool has_layers() const { return model_.layers.size() > 1; }
  std::shared_ptr<Model> new_model(const std::string& precision) const;
  ModelPart part(const std::shared_ptr<Model>& model, Range layers, Activations activations) const;
  Batch batch_of(int64_t samples, c10::Device device) const;
  Tensors inputs_of(const std::shared_ptr<Model>& model, int64_t layer, const Batch& batch) const;
  Warm& warm(int64_t samples, const std::string& precision, int64_t room);
  std::optional<int64_t> kept_by(const ModelPart& layer, const Tensors& inputs, const Batch& batch,
                                 int64_t room) const;
  fit::PassCost run(const ModelPart& part, const Tensors& inputs, const Batch& batch) const;
  fit::PassCost best_of_some(const ModelPart& part, const Tensors& inputs,
                             const Batch& batch) const;
  int64_t in_use() const { return account_->figures().in_use; }
  int64_t held_by_models() const { return in_use() - in_use_at_first_; }
  /// The memory that a pass may need, where a device has `room`: this host may have less.
  int64_t room_here(int64_t room) const { return std::min(room, of_host_ - held_by_models()); }

  // Constant after construction.
  const Recipe recipe_;
  const std::shared_ptr<const data::TrainingData> data_;
  const std::shared_ptr<Objective> objective_;
  const c10::Device device_;
  MemoryAccount* const account_;
  const int64_t in_use_at_first_;
  const int64_t of_host_;  ///< bytes that may be used to measure
  fit::ModelFacts model_;

  std::map<std::pair<int64_t, std::string>, Warm> warm_;  ///< by samples and precision
};

PassMeter::PassMeter(const Recipe& recipe, std::shared_ptr<const data::TrainingData> data,
                     const std::string& devices)
    : recipe_(for_one_device(recipe)),
      data_(std::move(data)),
      objective_(make_objective(recipe_, *data_->splits.test)),
      device_(device_for(recipe_, 0, devices)),
      account_(counted_account(recipe_, device_)),
      in_use_at_first_(in_use()),
      of_host_(static_cast<int64_t>(kUsedOfHost * static_cast<double>(available_memory()))) {
  keep_freed_memory();
  at::set_num_threads(static_cast<int>(recipe_.train.threads));
  model_ = facts_of(new_model(recipe_.train.precision), recipe_.model.name);
  model_.bytes_per_sample = data::bytes_of(data_->splits.train->fields());
}

std::shared_ptr<Model> PassMeter::new_model(const std::string& precision) const {
  Recipe recipe = recipe_;
  recipe.train.precision = precision;
  std::shared_ptr<Model> model = make_model(recipe, *data_->splits.train, *objective_);
  model->to(device_);
  model->train();
  return model;
}

ModelPart PassMeter::part(const std::shared_ptr<Model>& model, Range layers,
                          Activations activations) const {
  if (!has_layers()) return ModelPart(model);
  return {std::dynamic_pointer_cast<SequentialModel>(model), layers, activations};
}

Batch PassMeter::batch_of(int64_t samples, c10::Device device) const {
  const std::shared_ptr<const Dataset>& split = data_->splits.train;
  data::Loader loader(split,
                      {.batch = samples, .order = data::SampleOrder::sequential, .prefetch = 0});
  const data::LoadedBatch& loaded = loader.next();
  Batch batch = to_tensors(loaded, split->fields(), {0, loaded.whole}, device);
  if (device.is_cpu()) {  // the loader's memory ends with it
    batch.inputs = received(batch.inputs);
    batch.targets = received(batch.targets);
  }
  parallel::synchronize(device);
  return batch;
}

// What the layers before this one compute.
Tensors PassMeter::inputs_of(const std::shared_ptr<Model>& model, int64_t layer,
                             const Batch& batch) const {
  if (layer == 0) return batch.inputs;
  return outputs_without_gradients(part(model, {0, layer}, Activations::kept), batch.inputs,
                                   batch.samples);
}

// Which kernels compute a layer, and so what they keep, may depend on the number of samples.
// A layer may need `room` bytes; the rest of the model, which other devices may have, is not
// counted.
PassMeter::Warm& PassMeter::warm(int64_t samples, const std::string& precision, int64_t room) {
  const std::pair key = {samples, precision};
  if (const auto known = warm_.find(key); known != warm_.end()) return known->second;
  if (static_cast<double>(held_by_models()) > kKeptOfUsed * static_cast<double>(of_host_))
    warm_.clear();
  Warm made{.model = new_model(precision), .batch = batch_of(samples, device_)};
  Tensors inputs = made.batch.inputs;
  for (int64_t i = 0; i < std::ssize(model_.layers); ++i) {
    const ModelPart layer = part(made.model, {i, i + 1}, Activations::kept);
    made.kept.push_back(kept_by(layer, inputs, made.batch, room));
    if (!layer.is_last()) inputs = outputs_without_gradients(layer, inputs, samples);
  }
  return warm_.emplace(key, std::move(made)).first->second;
}

std::optional<int64_t> PassMeter::kept_by(const ModelPart& layer, const Tensors& inputs,
                                          const Batch& batch, int64_t room) const {
  const int64_t before = in_use();
  try {
    const Limited limited(*account_, room_here(room));
    run(layer, inputs, batch);
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
  return std::max<int64_t>(in_use() - before, 0);
}

fit::PassCost PassMeter::run(const ModelPart& part, const Tensors& given,
                             const Batch& batch) const {
  const MemoryScope scope(MemoryUse::activations);
  const parallel::Parameters parameters = parallel::trained_parameters(part.module());
  const parallel::GradientHooks hooks(
      parameters, [&](size_t i) { parameters.tensors[i].mutable_grad().reset(); });
  const CallPlace place = call_place(batch.samples);
  const int64_t before = in_use();
  fit::PassCost cost;
  Stopwatch stopwatch;
  const Tensors inputs = part.is_first() ? given : parallel::GraphInputs(received(given)).tensors();
  torch::autograd::variable_list roots, gradients;
  Tensors outputs;
  if (part.is_last()) {
    outputs = outputs_of(part, inputs, objective_->outputs(), place);
    roots = {call_user_code("the objective's loss()", place,
                            [&] { return objective_->loss(outputs, batch).sum; })};
    gradients = {torch::Tensor()};
  } else {
    outputs = forward_of(part, inputs, place);
    for (const torch::Tensor& output : parallel::DistinctTensors(outputs).tensors)
      if (output.requires_grad()) roots.push_back(output);
  }
  parallel::synchronize(device_);
  cost.forward = stopwatch.restart();
  cost.held = in_use() - before;
  for (const torch::Tensor& output : parallel::DistinctTensors(outputs).tensors)
    cost.sent += static_cast<int64_t>(output.nbytes());
  if (!part.is_last())
    for (const torch::Tensor& root : roots) gradients.push_back(torch::ones_like(root));
  if (!roots.empty())
    call_user_code("the backward pass", place,
                   [&] { torch::autograd::backward(roots, gradients); });
  parallel::synchronize(device_);
  cost.backward = stopwatch.seconds();
  return cost;
}

fit::PassCost PassMeter::best_of_some(const ModelPart& part, const Tensors& inputs,
                                      const Batch& batch) const {
  fit::PassCost best = run(part, inputs, batch);
  double spent = best.forward + best.backward;
  for (int round = 1; round < kMostRounds && spent < kEnoughSeconds; ++round) {
    const fit::PassCost one = run(part, inputs, batch);
    spent += one.forward + one.backward;
    if (one.forward + one.backward < best.forward + best.backward) best = one;
  }
  return best;
}

fit::MeasuredPass PassMeter::measure(const fit::Pass& pass, int64_t asked) {
  Warm& all = warm(pass.samples, pass.precision, asked);
  const int64_t room = room_here(asked);
  int64_t kept = 0;
  for (int64_t i = pass.layers.begin; i < pass.layers.end; ++i) {
    const std::optional<int64_t>& of_layer = all.kept[static_cast<size_t>(i)];
    if (!of_layer) return {{}, room};
    kept += *of_layer;
  }
  const Tensors inputs = inputs_of(all.model, pass.layers.begin, all.batch);
  const auto activations = pass.recompute ? Activations::recomputed : Activations::kept;
  const ModelPart layers = part(all.model, pass.layers, activations);
  const int64_t before = in_use();
  account_->forget_peak();
  try {
    const Limited limited(*account_, room);
    fit::PassCost cost = best_of_some(layers, inputs, all.batch);
    cost.peak = account_->figures().peak - before;
    cost.kept = kept;
    return {cost, room};
  } catch (const OutOfMemory&) {
    return {{}, room};
  }
}

std::vector<pipeline::LayerCost> PassMeter::layer_costs(const fit::Pass& pass) {
  const auto model = std::dynamic_pointer_cast<SequentialModel>(new_model(pass.precision));
  const Batch batch = batch_of(pass.samples, device_);
  return call_user_code("a layer's forward or backward pass", call_place(pass.samples), [&] {
    return parallel::measure_layers(model, batch.inputs,
                                    pass.recompute ? Activations::recomputed : Activations::kept);
  });
}

double PassMeter::update_seconds(int64_t bytes) {
  const int64_t count = std::max<int64_t>(bytes / static_cast<int64_t>(sizeof(float)), 1);
  std::vector<float> values(static_cast<size_t>(count)), gradients(values.size());
  const auto optimizer = optim::make_optimizer(recipe_.optimizer, {{.begin = 0, .end = count}});
  double fastest = 1e9;
  for (int update = 1; update <= kUpdates; ++update) {
    const Stopwatch stopwatch;
    optimizer->step(values, gradients, recipe_.optimizer.lr, update);
    fastest = std::min(fastest, stopwatch.seconds());
  }
  return fastest;
}

}  // namespace

std::unique_ptr<fit::Meter> make_pass_meter(const Recipe& recipe,
                                            std::shared_ptr<const data::TrainingData> data,
                                            const std::string& devices) {
  return std::make_unique<PassMeter>(recipe, std::move(data), devices);
}

}  // namespace lockstep::train
