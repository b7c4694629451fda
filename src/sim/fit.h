#pragma once

#include <cstdint>
#include <span>

#include "sim/network.h"

namespace lockstep::sim {

/// What a message of `bytes` took from one rank to another, one way: half a round trip, or a round
/// of two ranks that exchange messages. Of several tries, the best: noise only ever adds.
struct Measurement {
  int64_t bytes;
  double seconds;
};

/// `known` with the latency and bandwidth that explain the measurements best: the line
/// seconds = latency + 2 overhead + bytes/bandwidth with the least sum of squared relative errors,
/// so that a microsecond counts in a short message what a millisecond counts in a long one. What
/// `known` says of the overhead is kept. Throws BadInput for fewer than two sizes, for times that
/// are not positive, and for times that do not grow with size.
Network fit(std::span<const Measurement> measurements, const Network& known = {});

}  // namespace lockstep::sim
