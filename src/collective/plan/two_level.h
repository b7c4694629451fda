#pragma once

#include <cstdint>
#include <vector>

#include "collective/plan/all_reduce.h"
#include "collective/plan/shards.h"

namespace lockstep::collective {

/// All-reduce for hosts with several ranks each, where messages inside a host cost little: only one
/// rank a host, its leader, sends to other hosts, by the algorithm given. `host_of_rank` says which
/// ranks are on one host; throws BadInput where those are not consecutive.
///
/// Three rounds more than the algorithm's own among the leaders. In canonical order if the
/// algorithm is.
Plan two_level(const std::vector<int>& host_of_rank, Algorithm between_leaders,
               const Shards& shards, int64_t count);

}  // namespace lockstep::collective
