#pragma once

#include <cstdint>

#include "collective/plan.h"

namespace lockstep::collective {

/// What a message meets: every rank has one link to a switch, which carries both directions at
/// once.
struct Network {
  double latency = 50e-6;  ///< seconds from sender to receiver, however small the message
  double bytes_per_second = 125e6;
};

/// What a plan asks of a network.
struct Cost {
  int rounds = 0;
  int64_t messages = 0;    ///< of all ranks together
  int64_t bytes_most = 0;  ///< sent by the rank that sends most
  double seconds = 0;
};

/// Adds up the rounds. A round lasts a latency and what the rank with most to send or to receive
/// needs for that; the next begins when all have ended.
Cost cost_of(const Plan& plan, int64_t element_bytes, const Network& network);

}  // namespace lockstep::collective
