#pragma once

#include <cstdint>
#include <vector>

#include "collective/plan/plan.h"
#include "sim/network.h"

namespace lockstep::sim {

/// What a simulated plan takes.
struct Timing {
  double seconds = 0;             ///< until the last rank has finished
  std::vector<double> finish;     ///< by rank
  std::vector<double> link_busy;  ///< seconds, by link as sim/links.cpp numbers them
  int rounds = 0;
  int64_t messages = 0;     ///< of all ranks together
  int64_t bytes_total = 0;  ///< sent by all ranks together
  int64_t bytes_most = 0;   ///< sent by the rank that sends most
};

/// Runs a plan on a modelled network. Deterministic; 4,096 ranks take seconds. Throws BadInput for
/// a network with a value that is out of range.
Timing simulate(const collective::Plan& plan, int64_t element_bytes, const Network& network);

}  // namespace lockstep::sim
