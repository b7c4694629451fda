#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/range.h"
#include "data/training_data.h"
#include "lockstep/objective.h"
#include "lockstep/sequential_model.h"
#include "lockstep/world.h"
#include "parallel/grid.h"
#include "recipe/recipe.h"

namespace lockstep::train {

/// How a model is divided into parts.
struct Division {
  std::vector<Range> layers = {};  ///< by part; none if the model is not divided
  /// What would fit where a stage needs more memory than its device has: ": --split 4 would fit".
  /// If memory is not limited, what needs less.
  std::string advice = {};
  /// What would need less memory in a step: "; parallel.recompute would need less memory".
  std::string less = {};
};

/// Divides a model as the recipe says: by parallel.split, or so that parts take equally long and
/// fit their devices, for which rank 0 measures layers on samples. Collective. Throws BadInput for
/// a model or a split that cannot be.
Division divide(const Recipe& recipe, const std::shared_ptr<Model>& model,
                const Objective& objective, const data::TrainingData& data,
                const parallel::Grid& grid, World& world);

}  // namespace lockstep::train
