#pragma once

#include <cstdint>
#include <functional>
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

/// The canonical all-reduce algorithm that is fastest in simulation for a bucket of this size;
/// of almost equally fast ones, a pairwise one. Simulates each power of two once.
std::function<collective::Algorithm(int64_t bytes)> cheapest_on(const Network& network, int world);

}  // namespace lockstep::sim
