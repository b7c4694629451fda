#pragma once

#include <memory>

#include "data/dataset.h"
#include "data/loader.h"
#include "data/source.h"
#include "recipe/recipe.h"

namespace lockstep::train {

/// What a recipe trains on, in memory. Workers that are forked share it.
struct TrainingData {
  data::Splits splits;
  data::Normalization normalization;
  double load_seconds = 0;
};

/// Throws BadInput. Uses no thread once it returns.
std::shared_ptr<const TrainingData> load_training_data(const Recipe& recipe);

}  // namespace lockstep::train
