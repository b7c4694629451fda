#pragma once

#include <memory>

#include "collective/start.h"

namespace lockstep::collective {

/// See all_reduce.h.
Plan butterfly(const std::shared_ptr<const Start>& start);

}  // namespace lockstep::collective
