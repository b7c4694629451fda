#pragma once

#include <cstdint>

#include "collective/plan/plan.h"

namespace lockstep::collective {

/// Slice r (base/range.h) of rank r's bucket reaches the root's bucket, in one round.
Plan gather(int world, int64_t count, int root);

/// Slice r of the root's bucket reaches the bucket of rank r, in one round.
Plan scatter(int world, int64_t count, int root);

}  // namespace lockstep::collective
