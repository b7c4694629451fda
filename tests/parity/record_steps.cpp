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
#include "data/source.h"
#include "device/random.h"
#include "launch/group.h"
#include "model/model.h"
#include "train/state.h"
#include "train/step.h"

namespace {

using namespace lockstep;

template <typename T>
void append(std::ofstream& file, std::span<T> values) {
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size_bytes()));
}

void record(const Recipe& recipe, const std::filesystem::path& folder) {
  const data::Splits splits = data::load(recipe.data.source);
  const auto model = model::make_model({.name = recipe.model.name,
                                        .input = splits.train.shape,
                                        .kernels = model::kernels_named(recipe.train.kernels)});
  train::save_weights(folder / "initial.safetensors", *model);
  data::Loader loader(splits.train, {.batch = recipe.train.batch,
                                     .normalization = data::measure_normalization(splits.train)});
  const auto group = launch::join_group({}, {.connect = {.transport = "shm"}});
  train::Step step(recipe, model, splits.train.shape,
                   optim::Schedule(recipe.schedule, recipe.optimizer.lr, recipe.train.steps, 100),
                   {collective::Shards::even(1, 1), *group});

  std::ofstream x(folder / "x.f32", std::ios::binary), y(folder / "y.i64", std::ios::binary);
  nlohmann::json steps = {{"shape", splits.train.shape}, {"batch", recipe.train.batch}};
  observe::SpanTimes spans;
  for (int64_t i = 0; i < recipe.train.steps; ++i) {
    const data::Batch& batch = loader.next();
    append(x, batch.values);
    append(y, batch.labels);
    steps["losses"].push_back(step.run(batch, i, spans).mean_loss());
    steps["seeds"].push_back(RandomStream(Purpose::forward, recipe.train.seed, i, 0).next());
  }
  std::ofstream(folder / "steps.json") << steps.dump();
  train::save_weights(folder / "final.safetensors", *model);
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
  recipe.data.source.name = argv[2];
  recipe.train.kernels = argv[3];
  recipe.train.steps = std::stoll(argv[5]);
  recipe.train.batch = std::stoll(argv[6]);
  recipe.optimizer.lr = std::stod(argv[4]);
  recipe.optimizer.weight_decay = 5e-4;
  recipe.optimizer.nesterov = true;
  record(recipe, argv[7]);
  return 0;
}
