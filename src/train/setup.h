#pragma once

#include <memory>

#include "base/clock.h"
#include "data/loader.h"
#include "model/model.h"
#include "recipe/recipe.h"

namespace lockstep::train {

/// What a recipe asks for, loaded and ready: everything that can be wrong with a recipe is found
/// here, before a run's folder is touched.
struct Setup {
  /// Throws BadInput.
  explicit Setup(Recipe recipe);
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  const Recipe recipe;
  const Stopwatch since_start;
  const data::Splits splits;
  const data::Normalization normalization;
  const std::shared_ptr<model::Model> model;
  data::Loader loader;
  const int64_t steps_per_epoch;
  const int64_t total_steps;
  const double load_seconds;
};

}  // namespace lockstep::train
