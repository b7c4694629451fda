#pragma once

#include <memory>

#include "collective/plan/start.h"

namespace lockstep::collective {

/// See all_reduce.h.
Plan butterfly(const std::shared_ptr<const Start>& start);

}  // namespace lockstep::collective
