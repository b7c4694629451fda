#pragma once

#include <memory>

#include "collective/plan/start.h"

namespace lockstep::collective {

/// See all_reduce.h.
Plan one_to_all(const std::shared_ptr<const Start>& start);

}  // namespace lockstep::collective
