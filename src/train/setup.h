#pragma once

#include <memory>

#include "collective/communicator.h"
#include "data/loader.h"
#include "lockstep/world.h"
#include "model/model.h"
#include "recipe/recipe.h"
#include "train/training_data.h"

namespace lockstep::train {

/// What a recipe asks for, loaded and ready: everything that can be wrong with a recipe is found
/// here, before a run's folder is touched.
struct Setup {
  /// Collective. Throws BadInput; Mismatch where workers do not have the same recipe or data.
  Setup(Recipe recipe, World world, std::shared_ptr<const TrainingData> data);
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  const Recipe recipe;
  World world;
  collective::Communicator& group;
  const collective::Shards shards;
  const std::shared_ptr<const TrainingData> data;
  const data::Splits& splits;
  const data::Normalization& normalization;
  const std::shared_ptr<model::Model> model;
  data::Loader loader;
  const int64_t steps_per_epoch;
  const int64_t total_steps;
};

}  // namespace lockstep::train
