#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/training_data.h"
#include "data/write_npy.h"
#include "launch/group.h"
#include "parallel/world_of.h"
#include "recipe/recipe.h"
#include "run/events.h"
#include "run/run_folder.h"
#include "temporary_folder.h"
#include "train/trainer.h"

namespace lockstep::train {

/// A tiny data set of our own: 36 training samples, so epochs of 5 steps of which the last is
/// smaller.
inline Recipe tiny_recipe(const TemporaryFolder& folder) {
  std::vector<float> x;
  std::vector<int64_t> y;
  for (int64_t i = 0; i < 40; ++i) {
    y.push_back(i % 3);
    for (int64_t j = 0; j < 6; ++j) x.push_back(static_cast<float>((i * 7 + j * (1 + i % 3)) % 11));
  }
  data::write_npy(folder / "x.npy", "<f4", "(40, 6)", std::as_bytes(std::span(x)));
  data::write_npy(folder / "y.npy", "<i8", "(40,)", std::as_bytes(std::span(y)));
  Recipe recipe;
  recipe.data.name = "npy:" + folder.path().string();
  recipe.model.name = "mlp";
  recipe.train.batch = 8;
  recipe.train.epochs = 3;
  recipe.optimizer.lr = 0.01;
  return recipe;
}

/// A world of one worker.
inline World alone() {
  return world_of(launch::join_group({}, {.connect = {.transport = "shm"}}));
}

/// Trains in `out`, going on with the run that is there, if there is one.
inline run::Outcome train_until(const Recipe& recipe, const std::filesystem::path& out,
                                const Trainer::Limits& limits, const std::string& devices = {}) {
  Trainer trainer(recipe, alone(),
                  data::load_training_data(recipe.data, recipe.train.batch,
                                           static_cast<uint64_t>(recipe.train.seed)),
                  {}, Start::anew, devices);
  const run::RunFolder folder = std::filesystem::exists(out / "recipe.toml")
                                    ? run::RunFolder::open(out)
                                    : run::RunFolder::create(out, recipe);
  run::EventLog events(folder.events());
  return trainer.run(&folder, events, limits);
}

/// The same; returns the event that it ended with.
inline run::Json train(const Recipe& recipe, const std::filesystem::path& out,
                       const Trainer::Limits& limits = {}, const std::string& devices = {}) {
  return train_until(recipe, out, limits, devices).event;
}

}  // namespace lockstep::train
