#pragma once

#include <memory>
#include <vector>

#include "base/range.h"
#include "data/training_data.h"
#include "lockstep/sequential_model.h"
#include "lockstep/world.h"
#include "recipe/recipe.h"

namespace lockstep::train {

/// The layers of each of the parts into which the recipe divides a model: by parallel.split, or so
/// that parts take equally long, for which rank 0 measures layers on samples. Nothing if the model
/// is not divided. Collective. Throws BadInput for a model or a split that cannot be.
std::vector<Range> divide(const Recipe& recipe, const std::shared_ptr<Model>& model,
                          const data::TrainingData& data, World& world);

/// By layer: seconds of a forward and backward pass over the samples of a shard.
std::vector<double> measure_layers(const Recipe& recipe, SequentialModel& model,
                                   const data::TrainingData& data);

}  // namespace lockstep::train
