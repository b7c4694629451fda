#pragma once

#include <cstdint>
#include <vector>

#include "collective/plan/all_reduce.h"
#include "sim/network.h"

namespace lockstep::sim {

struct Prediction {
  collective::Algorithm algorithm;
  double seconds;
};

enum class Among { all, canonical };

/// How long an all-reduce of a bucket of floats takes by each algorithm that is a plan, fastest
/// first; equally fast ones in the order of their names. The simulation takes microseconds for a
/// few ranks, seconds for thousands.
std::vector<Prediction> predict(int world, int64_t bytes, const Network& network,
                                Among among = Among::all);

}  // namespace lockstep::sim
