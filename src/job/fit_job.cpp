#include "job/fit_job.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "base/child.h"
#include "base/clock.h"
#include "base/units.h"
#include "data/training_data.h"
#include "job/trainer_library.h"
#include "lockstep/error.h"
#include "pipeline/split.h"
#include "pipeline/workers.h"

namespace lockstep::job {
namespace {

int64_t limit_of(const Recipe& recipe) {
  if (recipe.device.memory.empty())
    throw BadInput(
        "device.memory is not set: give --device-memory SIZE, how much memory each device has");
  const int64_t limit = parse_bytes(recipe.device.memory);
  if (limit == 0)
    throw BadInput(
        "device.memory = {} is no limit: give --device-memory SIZE, how much memory each device "
        "has",
        recipe.device.memory);
  return limit;
}

// Bytes per second, of memory that no cache holds.
double copying_speed() {
  std::vector<std::byte> from(size_t{32} << 20, std::byte{1}), to(from.size());
  double fastest = 1e9;
  for (int round = 0; round < 3; ++round) {
    const Stopwatch stopwatch;
    std::memcpy(to.data(), from.data(), from.size());
    fastest = std::min(fastest, stopwatch.seconds());
  }
  return static_cast<double>(from.size()) / fastest;
}

sim::Network network_of(const FitJob& job) {
  sim::Network network;
  network.latency = job.latency;
  network.bytes_per_second = job.bytes_per_second > 0 ? job.bytes_per_second : copying_speed();
  return network;
}

// Passes that need no more are measured whatever the limit is: small ones do not grow along a line,
// since kernels differ by the number of samples.
constexpr int64_t kMeasuredAnyway = int64_t{1} << 30;

// What a question is answered by: data, and what passes over them cost.
class Measurements {
 public:
  explicit Measurements(const FitJob& job) : limit_(limit_of(job.recipe)) {
    const train::TrainerLibrary* const library = load_trainer().get();
    load_plugins(*library, job.plugins);
    library->check_names(job.recipe.model.name, job.recipe.objective.name);
    job.tell(fmt::format("reading {}", job.recipe.data.name));
    data_ = data::load_training_data(job.recipe.data, job.recipe.train.batch,
                                     static_cast<uint64_t>(job.recipe.train.seed));
    meter_ = library->make_pass_meter(job.recipe, data_, job.devices);
    costs_.emplace(*meter_, std::max(limit_, kMeasuredAnyway), job.tell);
  }

  fit::Question question(const FitJob& job) const {
    return {.recipe = job.recipe,
            .limit = limit_,
            .most_devices = job.most_devices,
            .network = network_of(job)};
  }
  fit::Costs& costs() { return *costs_; }
  int64_t limit() const { return limit_; }
  int64_t samples() const { return data_->splits.train->size(); }

 private:
  const int64_t limit_;
  std::shared_ptr<const data::TrainingData> data_;
  std::unique_ptr<fit::Meter> meter_;
  std::optional<fit::Costs> costs_;
};

fit::Way way_of(const Recipe& recipe, int workers, const fit::ModelFacts& model) {
  const pipeline::PipelineShape shape = pipeline_shape(recipe);
  if (shape.parts_per_stage > 1)
    throw BadInput(
        "--batch auto: not with parallel.schedule = \"{}\", which has several parts per "
        "stage; give a number",
        recipe.parallel.schedule);
  fit::Way way{.pipelines = pipeline::pipelines_of(shape, workers),
               .stages = shape.stages,
               .accumulate = recipe.train.accumulate,
               .recompute = recipe.parallel.recompute,
               .zero = recipe.parallel.zero,
               .precision = recipe.train.precision,
               .schedule = recipe.parallel.schedule,
               .place = fit::place_of_stages(recipe, workers)};
  if (recipe.train.shards > 0)
    way.shards = (recipe.train.shards + way.pipelines - 1) / way.pipelines;
  std::vector<std::string> names;
  for (const fit::LayerSize& layer : model.layers) names.push_back(layer.name);
  if (!recipe.parallel.split.empty())
    way.split = pipeline::parse_split(recipe.parallel.split, names, shape.stages);
  else if (shape.stages > 1)
    pipeline::require_enough_blocks(model.blocks, shape.stages);
  return way;
}

// Its batch, whether it has all samples and, where stages were divided by measured times, that
// division.
std::string largest_batch_as_text(const FitJob& job, int workers) {
  Measurements measured(job);
  const fit::Way way = way_of(job.recipe, workers, measured.costs().model());
  const fit::LargestBatch largest = fit::largest_batch(
      way, pieces_of(job.recipe), measured.question(job), measured.costs(), measured.samples());
  if (largest.batch == 0)
    throw BadInput(
        "--batch auto: with device.memory = {} not even passes of one sample fit{}; `lockstep fit` "
        "shows the ways that do",
        job.recipe.device.memory,
        way.shards == 1
            ? ""
            : fmt::format(" beside the gradients of {} on a worker: fewer of them (--shards) need "
                          "less",
                          plural(way.shards, "shard")));
  return fmt::format("{} {:d} {}", largest.batch, largest.is_all_samples,
                     largest.split.empty() ? "" : pipeline::to_text(largest.split));
}

}  // namespace

FitResult find_what_fits(const FitJob& job) {
  Measurements measured(job);
  const fit::Question question = measured.question(job);
  FitResult result{.limit = measured.limit(),
                   .largest = fit::largest_batch({.precision = job.recipe.train.precision}, 1,
                                                 question, measured.costs(), measured.samples())};
  fit::FoundWays found = fit::find_ways(question, measured.costs());
  result.ways = std::move(found.ways);
  result.left_out = std::move(found.left_out);
  if (measured.costs().times_are_rough()) result.times = FitResult::Times::rough;
  const std::string& undivided = measured.costs().model().undivided;
  const std::string& unrecomputed = measured.costs().model().unrecomputed;
  if (undivided == unrecomputed && !undivided.empty()) {
    result.left_out.push_back(fmt::format("No stages and no recomputation: {}", undivided));
    return result;
  }
  if (!undivided.empty()) result.left_out.push_back(fmt::format("No stages: {}", undivided));
  if (!unrecomputed.empty())
    result.left_out.push_back(fmt::format("No recomputation: {}", unrecomputed));
  return result;
}

ChosenBatch with_largest_batch(const FitJob& asked, int workers) {
  if (is_data_parallel(asked.recipe))
    throw BadInput(
        "--batch auto: not with parallel.mode = \"dp\" (--parallel dp), of which only the first "
        "device has the optimizer and whole batches; give a number");
  FitJob job = asked;
  Recipe& recipe = job.recipe;
  if (recipe.train.shards == 0) {  // two micro-batches for each stage, so that stages overlap
    const pipeline::PipelineShape shape = pipeline_shape(recipe);
    const int64_t of_pipeline =
        shape.stages == 1 || recipe.train.accumulate > 1 ? 1 : 2 * int64_t{shape.stages};
    recipe.train.shards = pipeline::pipelines_of(shape, workers) * of_pipeline;
  }
  recipe.train.batch = pieces_of(recipe);
  std::istringstream found(in_child_process([&] { return largest_batch_as_text(job, workers); }));
  bool is_all_samples = false;
  found >> recipe.train.batch >> is_all_samples >> recipe.parallel.split;
  recipe.train.batch -= recipe.train.batch % pieces_of(recipe);
  validate(recipe);
  return {std::move(recipe), is_all_samples ? LimitedBy::data : LimitedBy::memory};
}

}  // namespace lockstep::job
