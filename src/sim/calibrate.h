#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "collective/communicator.h"
#include "sim/network.h"

namespace lockstep::sim {

/// Collective: measures long messages from every rank to the next, folding, and short all-reduces
/// by several algorithms; returns the switch with which the simulator comes closest to them, the
/// same on every rank. Takes a fraction of a second.
Network calibrate(collective::Communicator& group);

/// The cheapest all-reduce for a size, by simulation, among those in canonical order. Sizes are
/// looked at in powers of two, each once.
std::function<collective::Algorithm(int64_t bytes)> cheapest_on(const Network& network, int world);

/// "latency 31.2 us, 117 MB/s, 4.1 us of processor a message".
std::string describe(const Network& network);

}  // namespace lockstep::sim
