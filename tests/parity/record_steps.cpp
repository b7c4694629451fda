// Trains a few steps and writes down everything needed to repeat them elsewhere:
//   record_steps MODEL DATA STEPS BATCH FOLDER
// leaves FOLDER/initial.safetensors, x.f32, y.i64 (the batches, one after another), steps.json (the
// losses, the dropout seed of each step, the shape of a sample) and final.safetensors.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "data/loader.h"
#include "data/training_data.h"
#include "device/random.h"
#include "launch/group.h"
#include "model/models.h"
#include "objective/objectives.h"
#include "parallel/world_of.h"
#include "train/state.h"
#include "train/step.h"

namespace {

using namespace lockstep;

void append(std::ofstream& file, std::span<const std::byte> bytes) {
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

void record(const Recipe& recipe, const std::filesystem::path& folder) {
  const auto seed = static_cast<uint64_t>(recipe.train.seed);
  const auto data = data::load_training_data(recipe.data, recipe.train.batch, seed);
  const Fields& fields = data->splits.train->fields();
  const nn::Kernels kernels = model::kernels_named(recipe.train.kernels);
  const std::shared_ptr<Objective> objective =
      objective::make_objective("classification", {.fields = fields, .kernels = kernels});
  const auto model = model::make_model({.name = recipe.model.name,
                                        .inputs = fields.inputs,
                                        .outputs = objective->outputs(),
                                        .kernels = kernels},
                                       seed);
  train::save_weights(folder / "initial.safetensors", train::CollectedState(*model).model());
  data::Loader loader(data->splits.train, {.batch = recipe.train.batch});
  const World world = world_of(launch::join_group({}, {.connect = {.transport = "shm"}}));
  train::Step step(
      recipe,
      {.model = {parallel::ModelPart(model)},
       .parameters = {},
       .objective = objective,
       .batches = std::make_shared<train::DeviceBatches>(torch::kCPU, fields),
       .schedule = optim::Schedule(recipe.schedule, recipe.optimizer.lr, recipe.train.steps, 100),
       .shards = collective::Shards::even(1, 1),
       .grid = std::make_shared<parallel::Grid>(world, pipeline::PipelineShape{}),
       .world = world});

  std::ofstream x(folder / "x.f32", std::ios::binary), y(folder / "y.i64", std::ios::binary);
  nlohmann::json steps = {{"shape", fields.inputs[0].shape}, {"batch", recipe.train.batch}};
  observe::SpanTimes spans;
  for (int64_t i = 0; i < recipe.train.steps; ++i) {
    const data::LoadedBatch& batch = loader.next();
    append(x, batch.fields[0]);
    append(y, batch.fields[1]);
    steps["losses"].push_back(step.run(batch, i, spans).mean_loss());
    steps["seeds"].push_back(RandomStream(Purpose::forward, seed, i, 0).next());
  }
  std::ofstream(folder / "steps.json") << steps.dump();
  train::save_weights(folder / "final.safetensors", train::CollectedState(*model).model());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    fmt::print(stderr, "usage: record_steps MODEL DATA KERNELS RATE STEPS BATCH FOLDER\n");
    return 2;
  }
  at::set_num_threads(1);
  Recipe recipe;
  recipe.model.name = argv[1];
  recipe.data.name = argv[2];
  recipe.train.kernels = argv[3];
  recipe.train.steps = std::stoll(argv[5]);
  recipe.train.batch = std::stoll(argv[6]);
  recipe.optimizer.lr = std::stod(argv[4]);
  recipe.optimizer.weight_decay = 5e-4;
  recipe.optimizer.nesterov = true;
  record(recipe, argv[7]);
  return 0;
}
