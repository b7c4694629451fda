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
#include "data/loader.h"
#include "device/allocator.h"
#include "lockstep/error.h"
#include "parallel/device_streams.h"
#include "parallel/gradient_hooks.h"
#include "parallel/graph_inputs.h"
#include "parallel/layer_costs.h"
#include "parallel/model_part.h"
#include "parallel/parameters.h"
#include "train/batch_tensors.h"
#include "train/make_model.h"
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
constexpr size_t kMostModels = 8;  ///< that are kept for other passes of as many samples

Recipe for_one_device(Recipe recipe) {
  recipe.parallel = {};
  recipe.device.memory.clear();
  recipe.train.batch = recipe.train.shards = recipe.train.accumulate = 1;
  validate(recipe);
  return recipe;
}

// Copies without history, of which gradients can be asked.
Tensors received(const Tensors& tensors) {
  std::vector<Tensors::Item> copies;
  for (const auto& [name, tensor] : tensors)
    copies.emplace_back(name, tensor.detach().clone().set_requires_grad(tensor.requires_grad()));
  return Tensors(std::move(copies));
}

int64_t bytes_of(const std::vector<torch::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

fit::LayerSize size_of(const ModelPart& part, const std::string& name) {
  const torch::nn::Module& module = part.module();
  return {.name = name,
          .state = bytes_of(module.parameters()) + bytes_of(module.buffers()),
          .trained = bytes_of(parallel::trained_parameters(module).tensors)};
}

class PassMeter final : public fit::Meter {
 public:
  PassMeter(const Recipe& recipe, std::shared_ptr<const data::TrainingData> data,
            const std::string& devices);

  const std::vector<fit::LayerSize>& layers() const override { return layers_; }
  const std::string& undivided() const override { return undivided_; }
  int64_t bytes_per_sample() const override { return bytes_per_sample_; }
  std::optional<fit::PassCost> measure(const fit::Pass& pass, int64_t room) override;
  std::vector<pipeline::LayerCost> layer_costs(const fit::Pass& pass) override;
  double update_seconds(int64_t bytes) override;

 private:
  /// A model whose layers have made one pass each over so many samples, so that their kernels have
  /// what they keep.
  struct Warm {
    std::shared_ptr<Model> model;
    Batch batch;
    std::vector<int64_t> kept;  ///< by layer
  };

  bool can_be_divided() const { return undivided_.empty(); }
  std::shared_ptr<Model> new_model(const std::string& precision) const;
  ModelPart part(const std::shared_ptr<Model>& model, Range layers, Activations activations) const;
  Batch batch_of(int64_t samples, c10::Device device) const;
  Tensors inputs_of(const std::shared_ptr<Model>& model, int64_t layer, const Batch& batch) const;
  Warm& warm(int64_t samples, const std::string& precision, int64_t room);
  fit::PassCost run(const ModelPart& part, const Tensors& inputs, const Batch& batch) const;
  fit::PassCost best_of_some(const ModelPart& part, const Tensors& inputs,
                             const Batch& batch) const;
  void wait() const;
  int64_t in_use() const { return account_->figures().in_use; }

  // Constant after construction.
  const Recipe recipe_;
  const std::shared_ptr<const data::TrainingData> data_;
  const std::shared_ptr<Objective> objective_;
  const c10::Device device_;
  MemoryAccount* const account_;
  std::vector<fit::LayerSize> layers_;
  std::string undivided_;
  int64_t bytes_per_sample_ = 0;

  std::map<std::pair<int64_t, std::string>, Warm> warm_;  ///< by samples and precision
};

PassMeter::PassMeter(const Recipe& recipe, std::shared_ptr<const data::TrainingData> data,
                     const std::string& devices)
    : recipe_(for_one_device(recipe)),
      data_(std::move(data)),
      objective_(make_objective(recipe_, *data_->splits.test)),
      device_(device_for(recipe_, 0, devices)),
      account_(virtual_devices::account_of(device_)) {
  if (account_ == nullptr)
    throw BadInput(
        "device.kind = {}: its memory is not counted, so that nothing can be measured; use cpu or "
        "virtual",
        recipe_.device.kind);
  keep_freed_memory();
  at::set_num_threads(static_cast<int>(recipe_.train.threads));
  const std::shared_ptr<Model> model = new_model(recipe_.train.precision);
  const auto sequential = std::dynamic_pointer_cast<SequentialModel>(model);
  if (!sequential || sequential->layers().size() < 2) {
    undivided_ =
        fmt::format("model '{}' does not list its layers (see lockstep/sequential_model.h)",
                    recipe_.model.name);
    layers_.push_back(size_of(ModelPart(model), recipe_.model.name));
  } else {
    for (const ModelLayer& layer : sequential->layers()) {
      const auto number = static_cast<int64_t>(layers_.size());
      layers_.push_back(size_of(part(model, {number, number + 1}, Activations::kept), layer.name));
    }
  }
  if (device_.is_cpu()) return;
  const Batch one = batch_of(1, device_);
  for (const Tensors& tensors : {one.inputs, one.targets})
    for (const auto& [name, tensor] : tensors)
      bytes_per_sample_ += static_cast<int64_t>(tensor.nbytes());
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
  if (!can_be_divided()) return ModelPart(model);
  return {std::dynamic_pointer_cast<SequentialModel>(model), layers, activations};
}

Batch PassMeter::batch_of(int64_t samples, c10::Device device) const {
  const std::shared_ptr<const Dataset>& split = data_->splits.train;
  data::Loader loader(split, {.batch = samples, .order = data::SampleOrder::sequential});
  const data::LoadedBatch& loaded = loader.next();
  Batch batch = to_tensors(loaded, split->fields(), {0, loaded.whole}, c10::kCPU);
  batch.inputs = received(batch.inputs);  // the loader's memory ends with it
  batch.targets = received(batch.targets);
  return moved(std::move(batch), device);
}

// What the layers before this one compute.
Tensors PassMeter::inputs_of(const std::shared_ptr<Model>& model, int64_t layer,
                             const Batch& batch) const {
  if (layer == 0) return batch.inputs;
  const torch::NoGradGuard no_grad;
  const auto& layers = std::dynamic_pointer_cast<SequentialModel>(model)->layers();
  Tensors x = batch.inputs;
  for (int64_t i = 0; i < layer; ++i) x = layers[static_cast<size_t>(i)].forward(x);
  std::vector<Tensors::Item> leaves;
  for (const auto& [name, tensor] : x)
    leaves.emplace_back(name, tensor.detach().set_requires_grad(tensor.is_floating_point()));
  return Tensors(std::move(leaves));
}

// Which kernels compute a layer, and so what they keep, may depend on the number of samples.
// A layer may need `room` bytes; the rest of the model, which other devices may have, is not
// counted.
PassMeter::Warm& PassMeter::warm(int64_t samples, const std::string& precision, int64_t room) {
  const std::pair key = {samples, precision};
  if (const auto known = warm_.find(key); known != warm_.end()) return known->second;
  while (warm_.size() >= kMostModels) warm_.erase(warm_.begin());
  Warm made{.model = new_model(precision), .batch = batch_of(samples, device_)};
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    const Tensors inputs = inputs_of(made.model, number, made.batch);
    const int64_t before = in_use();
    account_->set_limit(before + room);
    run(part(made.model, {number, number + 1}, Activations::kept), inputs, made.batch);
    account_->set_limit(0);
    made.kept.push_back(std::max<int64_t>(in_use() - before, 0));
  }
  return warm_.emplace(key, std::move(made)).first->second;
}

void PassMeter::wait() const {
  if (!device_.is_cpu()) parallel::synchronize(parallel::current_stream(device_));
}

fit::PassCost PassMeter::run(const ModelPart& part, const Tensors& given,
                             const Batch& batch) const {
  const MemoryScope scope(MemoryUse::activations);
  const parallel::Parameters parameters = parallel::trained_parameters(part.module());
  const parallel::GradientHooks hooks(
      parameters, [&](size_t i) { parameters.tensors[i].mutable_grad().reset(); });
  const CallPlace place{"the measured pass of", batch.samples, batch.samples};
  const int64_t before = in_use();
  fit::PassCost cost;
  Stopwatch stopwatch;
  const Tensors inputs = part.is_first() ? given : parallel::GraphInputs(received(given)).tensors();
  torch::autograd::variable_list roots, gradients;
  Tensors outputs;
  if (part.is_last()) {
    outputs = outputs_of(part, inputs, objective_->outputs(), place);
    roots = {objective_->loss(outputs, batch).sum};
    gradients = {torch::Tensor()};
  } else {
    outputs = forward_of(part, inputs, place);
    for (const auto& [name, output] : outputs)
      if (output.requires_grad()) roots.push_back(output);
  }
  wait();
  cost.forward = stopwatch.restart();
  cost.held = in_use() - before;
  for (const auto& [name, output] : outputs) cost.sent += static_cast<int64_t>(output.nbytes());
  if (!part.is_last())
    for (const torch::Tensor& root : roots) gradients.push_back(torch::ones_like(root));
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
  wait();
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

std::optional<fit::PassCost> PassMeter::measure(const fit::Pass& pass, int64_t room) {
  struct Unlimited {
    MemoryAccount& account;
    ~Unlimited() { account.set_limit(0); }
  } const after{*account_};
  try {
    Warm& all = warm(pass.samples, pass.precision, room);
    const Tensors inputs = inputs_of(all.model, pass.layers.begin, all.batch);
    const int64_t before = in_use();
    account_->set_limit(before + room);
    account_->forget_peak();
    const auto activations = pass.recompute ? Activations::recomputed : Activations::kept;
    fit::PassCost cost = best_of_some(part(all.model, pass.layers, activations), inputs, all.batch);
    cost.peak = account_->figures().peak - before;
    for (int64_t i = pass.layers.begin; i < pass.layers.end; ++i)
      cost.kept += all.kept[static_cast<size_t>(i)];
    return cost;
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
}

std::vector<pipeline::LayerCost> PassMeter::layer_costs(const fit::Pass& pass) {
  const auto model = std::dynamic_pointer_cast<SequentialModel>(new_model(pass.precision));
  model->to(c10::kCPU);
  return parallel::measure_layers(model, batch_of(pass.samples, c10::kCPU).inputs,
                                  pass.recompute ? Activations::recomputed : Activations::kept);
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
