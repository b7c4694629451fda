#pragma once

#include <memory>

#include "lockstep/dataset.h"
#include "lockstep/model.h"
#include "lockstep/objective.h"
#include "recipe/recipe.h"

namespace lockstep::train {

/// The recipe's objective for these samples. Throws BadInput for one that the recipe's data do not
/// suit.
std::shared_ptr<Objective> make_objective(const Recipe& recipe, const Dataset& dataset);

/// The recipe's model, on the CPU, with its initial weights. Throws BadInput for one that cannot be
/// stored.
std::shared_ptr<Model> make_model(const Recipe& recipe, const Dataset& dataset,
                                  const Objective& objective);

}  // namespace lockstep::train
