#include "train/setup.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/agreement.h"
#include "base/digest.h"
#include "device/allocator.h"
#include "kernels/cpu.h"
#include "lockstep/error.h"
#include "parallel/parameters.h"
#include "parallel/tensor_buffer.h"
#include "pipeline/workers.h"
#include "train/division.h"
#include "train/make_model.h"
#include "train/memory.h"
#include "train/placement.h"
#include "train/state.h"
#include "virtual_devices/accounts.h"

namespace lockstep::train {
namespace {

Recipe checked(Recipe recipe) {
  validate(recipe);
  keep_freed_memory();
  at::set_num_threads(static_cast<int>(recipe.train.threads));
  return recipe;
}

std::vector<std::string> loaded_weights(const Recipe& recipe, Model& model) {
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

// How workers divide the model must be agreed upon before they meet in groups.
std::shared_ptr<parallel::Grid> grid_for(const Recipe& recipe, World world) {
  check_worker_count(recipe, world.size());
  const pipeline::PipelineShape shape = pipeline_shape(recipe);
  Facts facts = {{"parallel.stages (--stages)", fmt::format("{}", recipe.parallel.stages)},
                 {"parallel.schedule", recipe.parallel.schedule},
                 {"parallel.split", recipe.parallel.split},
                 {"parallel.parts_per_stage", fmt::format("{}", shape.parts_per_stage)},
                 {"parallel.zero", fmt::format("{}", recipe.parallel.zero)}};
  // Pieces of an evaluation pass through all stages.
  if (recipe.parallel.stages > 1)
    facts.emplace_back("device.memory (--device-memory)", recipe.device.memory);
  agree(facts, [&](const std::string& text) { return world.communicator().gather_texts(text); });
  return std::make_shared<parallel::Grid>(world, shape);
}

// Workers with neither the first nor the last part of the model need no samples.
data::Share share_of(const collective::Shards& pieces, const parallel::Grid& grid) {
  const auto at = static_cast<size_t>(grid.pipeline());
  const bool needs_samples = grid.has_part(0) || grid.has_part(grid.shape().parts() - 1);
  const int64_t begin = pieces.bounds()[at];
  return {begin, needs_samples ? pieces.bounds()[at + 1] : begin, pieces.count()};
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
  // Without stages all workers get rank 0's weights; a stage keeps those that it has read.
  if (const std::string& weights = setup.recipe.model.weights;
      setup.recipe.parallel.stages > 1 && !weights.empty() && std::filesystem::exists(weights))
    facts.emplace_back("the digest of model.weights", digest_file(Digest::Kind::sha256, weights));
  facts.emplace_back("the data's digest", setup.data->digest);
  // A shard's bits would depend on which worker computes it.
  facts.emplace_back("the instruction set of kernels (set LOCKSTEP_INSTRUCTIONS alike for all)",
                     to_string(kernels::instruction_set()));
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
             Facts facts, Start start, const std::string& selected)
    : recipe(checked(std::move(asked))),
      world(std::move(everyone)),
      group(world.communicator()),
      grid(grid_for(recipe, world)),
      shards(collective::Shards::even(shards_of(recipe), grid->pipelines())),
      devices(devices_for(recipe, world.local_rank(),
                          pipeline::stages_of_worker(grid->shape(), world.size()), selected)),
      data(std::move(loaded)),
      objective(make_objective(recipe, test())),
      model(make_model(recipe, train(), *objective)),
      evaluation(objective->metrics(), Phase::evaluation),
      ranking(recipe.train.best_by, objective->metrics()),
      batches(std::make_shared<DeviceBatches>(devices.front(), train().fields())),
      loader(data->splits.train,
             loader_options(recipe, share_of(shards.cut(recipe.train.accumulate), *grid),
                            batches->deliver())),
      steps_per_epoch(loader.batches_per_epoch()),
      total_steps(recipe.train.steps > 0 ? recipe.train.steps
                                         : recipe.train.epochs * steps_per_epoch) {
  check_device_count(recipe, std::ssize(devices));
  require_same_run(*this, std::move(facts));
  load_initial_weights(start);
  divide_model();
  limit_memory(devices.front(), recipe);
}

void Setup::load_initial_weights(Start start) {
  if (recipe.model.weights.empty()) return;
  lacks_weights = start == Start::again && !std::filesystem::exists(recipe.model.weights);
  if (!lacks_weights) left_weights = loaded_weights(recipe, *model);
}

// Moves the parts that this worker computes to their devices, and frees the others.
void Setup::divide_model() {
  const parallel::Parameters trained = parallel::trained_parameters(*model);
  for (size_t i = 0; i < trained.size(); ++i) {
    parameters.emplace(trained.names[i], i);
    parameter_count += trained.tensors[i].numel();
  }
  const Division division = divide(recipe, model, *objective, *data, *grid, world);
  const std::vector<Range>& layers = division.layers;
  stage_advice = division.advice + division.less;
  const auto activations =
      recipe.parallel.recompute ? parallel::Activations::recomputed : parallel::Activations::kept;
  const auto part_of = [&](const std::shared_ptr<Model>& of, int part) {
    return layers.empty() ? parallel::ModelPart(of)
                          : parallel::ModelPart(parallel::require_layers(of, recipe.model.name),
                                                layers[static_cast<size_t>(part)], activations);
  };
  for (const int part : grid->parts()) parts.push_back(part_of(model, part));
  release_others(*model, parts);
  require_memory_for_parts(division.advice);
  const MemoryScope scope(MemoryUse::parameters);
  for (size_t i = 0; i < parts.size(); ++i) parts[i].module().to(device_of(i));
  if (is_data_parallel(recipe))
    mirror_model([&](const std::shared_ptr<Model>& mirrored) { return part_of(mirrored, 0); });
  if (layers.empty()) return;
  // The peak is to be that of stages, not that of the whole model or of measuring its layers.
  for (const c10::Device device : devices)
    if (MemoryAccount* const account = virtual_devices::account_of(device)) account->forget_peak();
}

// A device may have several parts.
void Setup::require_memory_for_parts(const std::string& advice) const {
  std::vector<c10::Device> different;
  for (const c10::Device device : devices)
    if (std::ranges::find(different, device) == different.end()) different.push_back(device);
  for (const c10::Device device : different) {
    MemoryNeeds needs;
    std::vector<std::string> computed;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (device_of(i) != device) continue;
      needs += memory_needs(parts[i].module(), recipe, shards, grid->pipeline());
      computed.push_back(fmt::format("stage {} ({})", grid->shape().stage_of(grid->parts()[i]),
                                     parts[i].describe()));
    }
    const std::string name = parallel::device_name(device);
    const int64_t limit = memory_limit(recipe);
    require_memory(needs,
                   grid->shape().stages == 1
                       ? name
                       : fmt::format("{}, which computes {},", name, fmt::join(computed, ", ")),
                   limit,
                   (advice.empty() ? advice_on_stages(needs, limit, *model) : advice) +
                       advice_on_shards(needs, limit, recipe, grid->pipelines()));
  }
}

void Setup::mirror_model(const std::function<parallel::ModelPart(std::shared_ptr<Model>)>& whole) {
  std::vector<parallel::DeviceMirrors::Mirror> made;
  for (size_t i = 1; i < devices.size(); ++i) {
    const MemoryNeeds needs = memory_needs_of_mirror(*model);
    require_memory(needs, parallel::device_name(devices[i]), memory_limit(recipe),
                   advice_on_stages(needs, memory_limit(recipe), *model));
    parallel::MirroredModel mirrored(model, devices[i],
                                     [&] { return make_model(recipe, train(), *objective); });
    const auto same = std::dynamic_pointer_cast<Model>(mirrored.module());
    made.push_back({std::move(mirrored), whole(same)});
  }
  mirrors = std::make_shared<parallel::DeviceMirrors>(devices, std::move(made));
}

}  // namespace lockstep::train
