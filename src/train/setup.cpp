#include "train/setup.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/agreement.h"
#include "device/allocator.h"
#include "lockstep/error.h"
#include "model/models.h"
#include "objective/objectives.h"
#include "parallel/tensor_buffer.h"
#include "train/memory.h"
#include "train/placement.h"
#include "train/state.h"

namespace lockstep::train {
namespace {

Recipe checked(Recipe recipe) {
  validate(recipe);
  keep_freed_memory();
  at::set_num_threads(static_cast<int>(recipe.train.threads));
  return recipe;
}

std::shared_ptr<Objective> objective_for(const Recipe& recipe, const Dataset& dataset) {
  std::shared_ptr<Objective> made = objective::make_objective(
      recipe.objective.name, {.fields = dataset.fields(),
                              .kernels = model::kernels_named(recipe.train.kernels),
                              .options = recipe.objective.options});
  const auto has_categories = [](const Field& target) { return !target.categories.empty(); };
  if (recipe.data.mixup > 0 && !made->takes_probabilities() &&
      std::ranges::any_of(dataset.fields().targets, has_categories))
    throw BadInput(
        "data.mixup: objective '{}' does not take probabilities of classes, which labels become "
        "when samples are mixed; leave data.mixup out, or let the objective's "
        "takes_probabilities() return true",
        recipe.objective.name);
  return made;
}

// Checkpoints, digests and collectives treat tensors as contiguous bytes.
void require_storable(const Model& model) {
  const auto check = [](const char* what, const auto& items) {
    for (const auto& item : items) {
      if (!item.value().is_contiguous())
        throw BadInput("{} '{}' of the model is not contiguous; register its .contiguous()", what,
                       item.key());
      if (item.value().is_complex())
        throw BadInput(
            "{} '{}' of the model is complex, which checkpoints cannot store; register its "
            "torch::view_as_real()",
            what, item.key());
    }
  };
  check("parameter", model.named_parameters());
  check("buffer", model.named_buffers());
}

std::shared_ptr<Model> model_for(const Recipe& recipe, const Dataset& dataset,
                                 const Objective& objective) {
  const MemoryScope scope(MemoryUse::parameters);
  auto made = model::make_model({.name = recipe.model.name,
                                 .inputs = dataset.fields().inputs,
                                 .outputs = objective.outputs(),
                                 .kernels = model::kernels_named(recipe.train.kernels),
                                 .options = recipe.model.options},
                                static_cast<uint64_t>(recipe.train.seed));
  require_storable(*made);
  return made;
}

std::vector<std::string> load_initial_weights(const Recipe& recipe, Model& model) {
  const Weights which = recipe.model.weights_partial ? Weights::those_that_fit : Weights::all;
  const run::Safetensors file = run::read_safetensors(recipe.model.weights);
  try {
    return load_weights(file, recipe.model.weights, model, which);
  } catch (const BadInput& error) {
    if (which == Weights::those_that_fit) throw;
    throw BadInput("{}; to take only the tensors that fit, set model.weights_partial = true",
                   error.what());
  }
}

void move_to_device(Model& model, c10::Device device) {
  const MemoryScope scope(MemoryUse::parameters);
  model.to(device);
}

collective::Shards shards_for(const Recipe& recipe, int world_size) {
  check_worker_count(recipe, world_size);
  return collective::Shards::even(slices_of(recipe), world_size);
}

data::Share share_of(const collective::Shards& shards, int rank) {
  const auto at = static_cast<size_t>(rank);
  return {shards.bounds()[at], shards.bounds()[at + 1], shards.count()};
}

std::string describe(const std::vector<Metric>& metrics) {
  std::vector<std::string> texts;
  for (const Metric& metric : metrics)
    texts.push_back(fmt::format("'{}' (combined by {}, {}, shape [{}])", metric.name,
                                metric.combine == Metric::Combine::mean  ? "mean"
                                : metric.combine == Metric::Combine::sum ? "sum"
                                                                         : "max",
                                metric.when == Metric::When::always ? "always" : "in evaluation",
                                fmt::join(metric.shape, ", ")));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

// Without this check, workers with different data or recipes would train without an error.
void require_same_run(const Setup& setup, Facts facts) {
  for (const auto& [key, value] : result_values(setup.recipe)) facts.emplace_back(key, value);
  facts.emplace_back("the data's digest", setup.data->digest);
  facts.emplace_back("the objective's metrics", describe(setup.objective->metrics()));
  agree(facts, [&](const std::string& text) { return setup.group.gather_texts(text); });
}

data::LoaderOptions loader_options(const Recipe& recipe, const data::Share& share,
                                   data::Deliver deliver) {
  return {.batch = recipe.train.batch,
          .order = data::SampleOrder::shuffled,
          .last = recipe.train.drop_last ? data::LastBatch::drop : data::LastBatch::keep,
          .seed = static_cast<uint64_t>(recipe.train.seed),
          .share = share,
          .deliver = std::move(deliver)};
}

}  // namespace

Setup::Setup(Recipe asked, World everyone, std::shared_ptr<const data::TrainingData> loaded,
             Facts facts, Start start, const std::string& devices)
    : recipe(checked(std::move(asked))),
      world(std::move(everyone)),
      group(world.communicator()),
      shards(shards_for(recipe, group.world_size())),
      device(device_for(recipe, world.local_rank(), devices)),
      data(std::move(loaded)),
      objective(objective_for(recipe, test())),
      model(model_for(recipe, train(), *objective)),
      evaluation(objective->metrics(), Phase::evaluation),
      ranking(recipe.train.best_by, objective->metrics()),
      batches(std::make_shared<DeviceBatches>(device, train().fields())),
      loader(data->splits.train,
             loader_options(recipe, share_of(shards, group.rank()), batches->deliver())),
      steps_per_epoch(loader.batches_per_epoch()),
      total_steps(recipe.train.steps > 0 ? recipe.train.steps
                                         : recipe.train.epochs * steps_per_epoch) {
  if (!recipe.model.weights.empty()) {
    lacks_weights = start == Start::again && !std::filesystem::exists(recipe.model.weights);
    if (!lacks_weights) left_weights = load_initial_weights(recipe, *model);
  }
  require_memory(memory_needs(*model, recipe, shards, group.rank()), parallel::device_name(device),
                 memory_limit(recipe));
  move_to_device(*model, device);
  limit_memory(device, recipe);
  require_same_run(*this, std::move(facts));
}

}  // namespace lockstep::train
