#pragma once

#include <string>

#include "collective/plan/plan.h"

namespace lockstep::collective {

/// The rounds as a table for a terminal, a row a rank and a column a round: "->1 <+3" sends to rank
/// 1, and receives from rank 3 and adds. Of many ranks or rounds it shows the first and says how
/// many are left out.
std::string sketch_rounds(const Plan& plan);

}  // namespace lockstep::collective
