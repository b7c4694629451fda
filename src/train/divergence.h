#pragma once

#include <cstdint>

#include "lockstep/model.h"
#include "objective/scorecard.h"
#include "recipe/recipe.h"

namespace lockstep::train {

/// Throws Error, with what to do about it, if the loss of step number `step` is not finite.
void check_loss(const objective::Totals& totals, int64_t step, const Recipe& recipe);

/// Throws Error if a parameter is not finite after `steps` steps. The last step may have made it
/// so, which the loss shows only in the next one.
void check_parameters(const Model& model, int64_t steps, const Recipe& recipe);

}  // namespace lockstep::train
