#pragma once

#include <cstdint>
#include <string>

#include "collective/all_reduce.h"
#include "collective/cost.h"

namespace lockstep::collective {

/// The time an algorithm takes by its formula, in the words of `Network`:
/// "2 (n-1) (latency + size/n/bandwidth)".
std::string formula(Algorithm algorithm);

/// Every round's messages, one line a message: "round 1  0 -> 1  elements 0-249, added".
std::string list_rounds(const Plan& plan);

/// The rounds from left to right, ranks as horizontal lines, messages as arrows between them.
std::string draw_rounds(const Plan& plan, const std::string& title);

}  // namespace lockstep::collective
