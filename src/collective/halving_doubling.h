#pragma once

#include "collective/plan.h"

namespace lockstep::collective {

/// See all_reduce.h.
Plan halving_doubling(int world, int64_t count);

}  // namespace lockstep::collective
