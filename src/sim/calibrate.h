#pragma once

#include <functional>
#include <string>

#include "collective/communicator.h"
#include "sim/network.h"

namespace lockstep::sim {

struct CalibrateOptions {
  /// On a slow network fewer and shorter messages are measured, so that it takes hardly longer.
  double most_seconds = 3;
  /// Called once, on rank 0, when it has taken `notice_seconds`.
  std::function<void(const std::string& message)> tell = nullptr;
  double notice_seconds = 2;
};

/// Collective: measures long messages from every rank to the next, folding, and short all-reduces
/// by several algorithms; returns the switch for which simulated times are closest to the measured
/// ones, the same on every rank. Takes a fraction of a second, unless the network is slow.
Network calibrate(collective::Communicator& group, const CalibrateOptions& options = {});

/// "latency 31.2 us, 117 MB/s, 4.1 us of processor time a message and ...".
std::string describe(const Network& network);

}  // namespace lockstep::sim
