#pragma once

#include <cstdint>

#include "collective/plan/plan.h"

namespace lockstep::collective {

/// The bucket of rank `to` becomes that of rank `from`, in one round; the others have no part in
/// it.
Plan send_receive(int world, int64_t count, int from, int to);

}  // namespace lockstep::collective
