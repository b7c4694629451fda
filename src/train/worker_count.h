#pragma once

#include "recipe/recipe.h"

namespace lockstep::train {

/// Throws BadInput where a recipe has fewer shards than there are workers.
void check_worker_count(const Recipe& recipe, int workers);

}  // namespace lockstep::train
