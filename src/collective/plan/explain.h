#pragma once

#include <string>

#include "collective/plan/plan.h"

namespace lockstep::collective {

/// The messages of all rounds, one a line: "round 1  0 -> 1  elements 0-249, added".
std::string list_rounds(const Plan& plan);

/// The rounds as a table for a terminal, with a row for each rank and a column for each round:
/// "->1 <+3" sends to rank 1, receives from rank 3 and adds. Of many ranks or rounds it shows the
/// first ones and says how many it leaves out.
std::string sketch_rounds(const Plan& plan);

/// The rounds as an SVG, from left to right: ranks are horizontal lines, messages are arrows
/// between them.
std::string draw_rounds(const Plan& plan, const std::string& title);

}  // namespace lockstep::collective
