#pragma once

#include "collective/plan/plan.h"

namespace lockstep::collective {

/// Nobody leaves before all have arrived: ceil(log2 n) rounds. It moves a bucket of one element,
/// which stays as it is, because a message of nothing is not sent.
Plan barrier(int world);

}  // namespace lockstep::collective
