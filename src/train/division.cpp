#include "train/division.h"

#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "fit/memory_needs.h"
#include "lockstep/device_memory.h"
#include "parallel/layer_costs.h"
#include "parallel/layer_uses.h"
#include "parallel/model_part.h"
#include "train/batch_tensors.h"
#include "train/make_model.h"
#include "train/memory.h"
#include "train/placement.h"
#include "train/user_code.h"

namespace lockstep::train {
namespace {

using parallel::Activations;
using pipeline::LayerCost;
using pipeline::PipelineSchedule;

Activations activations_of(const Recipe& recipe) {
  return recipe.parallel.recompute ? Activations::recomputed : Activations::kept;
}

fit::StagePlace place_of(const Recipe& recipe, const parallel::Grid& grid) {
  return fit::place_of_stages(recipe, grid.is_whole() ? 1 : grid.shape().stages);
}

// The limit of each stage; 0 if there is none, or if all stages have one together.
int64_t limit_of_stage(const Recipe& recipe, const parallel::Grid& grid) {
  return place_of(recipe, grid) == fit::StagePlace::one_device ? 0 : memory_limit(recipe);
}

PipelineSchedule schedule_for(const Recipe& recipe, const parallel::Grid& grid) {
  pipeline::PipelineShape shape = grid.shape();
  shape.micro_batches = static_cast<int>(slice(shards_of(recipe), grid.pipelines(), 0).size() *
                                         recipe.train.accumulate);
  return make_schedule(pipeline::pipeline_schedules().at(recipe.parallel.schedule), shape);
}

// Of the batches on the device of a stage that needs samples, in the pipeline that has most.
int64_t bytes_of_batches(const Recipe& recipe, const parallel::Grid& grid, const Fields& fields) {
  const int64_t shards = shards_of(recipe), pipelines = grid.pipelines();
  const int64_t of_pipeline = (shards + pipelines - 1) / pipelines;
  return fit::bytes_of_batches(recipe, recipe.train.batch / shards * of_pipeline,
                               data::bytes_of(fields));
}

// On a model of its own, since kernels keep what they have prepared for a layer.
std::vector<LayerCost> measured(const Recipe& recipe, const Objective& objective,
                                const data::TrainingData& data, const parallel::Grid& grid,
                                const std::vector<Range>& blocks) {
  const std::shared_ptr<const Dataset>& samples = data.splits.train;
  const auto model =
      parallel::require_layers(make_model(recipe, *samples, objective), recipe.model.name);
  const int64_t shard = std::max<int64_t>(recipe.train.batch / pieces_of(recipe), 1);
  data::Loader loader(samples,
                      {.batch = shard, .order = data::SampleOrder::sequential, .prefetch = 0});
  const data::LoadedBatch& loaded = loader.next();
  const Batch batch = to_tensors(loaded, samples->fields(), {0, loaded.whole}, c10::kCPU);
  if (memory_limit(recipe) > 0) limit_cpu_memory(0);  // counts it, if nobody did
  std::vector<LayerCost> costs = call_user_code(
      "a layer's forward or backward pass", CallPlace{"the measured pass of", shard, shard},
      [&] { return parallel::measure_layers(model, batch.inputs, activations_of(recipe)); });
  const auto shards = collective::Shards::even(shards_of(recipe), grid.pipelines());
  for (const Range block : blocks)
    costs[static_cast<size_t>(block.begin)].state +=
        memory_needs(parallel::ModelPart(model, block).module(), recipe, shards, 0).sum();
  const int64_t batches = bytes_of_batches(recipe, grid, samples->fields());
  const fit::StagePlace place = place_of(recipe, grid);
  if (fit::has_samples(place, true, false)) costs.front().state += batches;
  if (fit::has_samples(place, false, true)) costs.back().state += batches;
  return costs;
}

std::string described(const std::vector<int64_t>& bytes) {
  std::vector<std::string> texts;
  for (const int64_t each : bytes) texts.push_back(format_bytes(each));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// "; parallel.recompute or --schedule sequential would need less memory": what is left to try.
std::string what_needs_less(const Recipe& recipe) {
  std::vector<std::string> all;
  if (recipe.train.batch > pieces_of(recipe))
    all.emplace_back("more shards or pieces (train.shards, train.accumulate)");
  if (!recipe.parallel.recompute) all.emplace_back("parallel.recompute");
  if (recipe.parallel.schedule != "sequential") all.emplace_back("--schedule sequential");
  if (all.empty()) return "";
  const std::string last = all.back();
  all.pop_back();
  return fmt::format("; {}{}{} would need less memory", fmt::join(all, ", "),
                     all.empty() ? "" : " or ", last);
}

// What layers would need if each pipeline had one shard, and so one slot of gradients.
std::vector<LayerCost> with_one_slot(std::vector<LayerCost> costs, const Recipe& recipe,
                                     const std::shared_ptr<SequentialModel>& model,
                                     const parallel::Grid& grid, const std::vector<Range>& blocks) {
  const auto shards = collective::Shards::even(shards_of(recipe), grid.pipelines());
  for (const Range block : blocks) {
    const MemoryNeeds needs =
        memory_needs(parallel::ModelPart(model, block).module(), recipe, shards, 0);
    costs[static_cast<size_t>(block.begin)].state -=
        needs.gradients / needs.slots * (needs.slots - 1);
  }
  return costs;
}

std::string advice_for(const Recipe& recipe, const std::vector<Range>& chosen,
                       const std::vector<LayerCost>& costs,
                       const std::vector<LayerCost>& of_one_shard, const PipelineSchedule& schedule,
                       int64_t limit, const std::vector<Range>& blocks) {
  if (limit == 0) return ": use more stages or another --split";
  const auto& row = pipeline::pipeline_schedules().at(recipe.parallel.schedule);
  const auto [split, fits] = pipeline::fitted_split(costs, schedule, limit, blocks);
  if (fits && split != chosen)
    return fmt::format(": --split {} would fit, with about {} by stage", pipeline::to_text(split),
                       described(bytes_of_stages(costs, split, schedule)));
  if (fits)
    return fmt::format(": stages were measured to need about {}",
                       described(bytes_of_stages(costs, split, schedule)));
  const auto stages = pipeline::stages_that_fit(costs, row, schedule.shape, limit, blocks);
  const std::string none =
      fmt::format(": no --split into {} would fit", plural(schedule.shape.stages, "stage"));
  if (stages) return fmt::format("{}, but --stages {} would", none, *stages);
  if (const auto fewer = stages_that_fit(of_one_shard, row, schedule.shape, limit, blocks))
    return fmt::format("{} with {}, but --stages {} would with one shard for each pipeline", none,
                       plural(shards_of(recipe), "shard"), *fewer);
  return fmt::format("{}, nor would any number of stages with this schedule", none);
}

}  // namespace

Division divide(const Recipe& recipe, const std::shared_ptr<Model>& model,
                const Objective& objective, const data::TrainingData& data,
                const parallel::Grid& grid, World& world) {
  if (const auto* const layers = dynamic_cast<const SequentialModel*>(model.get()))
    parallel::check_uses(*layers);
  const int parts = grid.shape().parts();
  if (parts == 1 && !recipe.parallel.recompute) return {};
  const auto sequential = parallel::require_layers(model, recipe.model.name);
  const auto layers = static_cast<int64_t>(sequential->layers().size());
  std::vector<std::string> names;
  for (const ModelLayer& layer : sequential->layers()) names.push_back(layer.name);
  Division division{.layers = {{0, layers}}};
  if (parts > 1) {
    const std::string& by_hand = recipe.parallel.split;
    const std::vector<Range> blocks = parallel::blocks_of(*sequential);
    if (by_hand.empty()) {
      pipeline::require_enough_blocks(blocks, parts);
    } else {
      division.layers = pipeline::parse_split(by_hand, names, parts);
      parallel::check_parts(*sequential, division.layers);
    }
    const int64_t limit = limit_of_stage(recipe, grid);
    std::vector<LayerCost> costs;
    if (by_hand.empty() || limit > 0)
      costs = parallel::costs_of_first(
          world, [&] { return measured(recipe, objective, data, grid, blocks); });
    const PipelineSchedule schedule = schedule_for(recipe, grid);
    if (by_hand.empty()) division.layers = fitted_split(costs, schedule, limit, blocks).split;
    division.advice =
        place_of(recipe, grid) == fit::StagePlace::one_device
            ? fmt::format(
                  ": all stages share the memory of one worker; with --workers {} each has "
                  "as much",
                  grid.shape().stages)
            : advice_for(
                  recipe, division.layers, costs,
                  limit == 0 ? costs : with_one_slot(costs, recipe, sequential, grid, blocks),
                  schedule, limit, blocks);
    division.less = what_needs_less(recipe);
  }
  if (recipe.parallel.recompute) parallel::check_recomputed(*sequential);
  return division;
}

}  // namespace lockstep::train
