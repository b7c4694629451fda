#pragma once

#include <cstdint>
#include <string>

#include "collective/plan/all_reduce.h"

namespace lockstep::collective {

/// The time an algorithm takes on a switch whose links carry both directions, by its formula:
/// "2 (n-1) (latency + size/n/bandwidth)".
std::string formula(Algorithm algorithm);

/// Every round's messages, one line a message: "round 1  0 -> 1  elements 0-249, added".
std::string list_rounds(const Plan& plan);

/// The rounds from left to right, ranks as horizontal lines, messages as arrows between them.
std::string draw_rounds(const Plan& plan, const std::string& title);

}  // namespace lockstep::collective
