#pragma once

#include "collective/plan/shards.h"

namespace lockstep::collective {

/// See all_reduce.h. A rank with several terms adds them first, in a round without messages.
Plan ring(const Shards& shards, int64_t count);

}  // namespace lockstep::collective
