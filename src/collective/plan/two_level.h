#pragma once

#include <cstdint>
#include <vector>

#include "collective/plan/all_reduce.h"
#include "collective/plan/shards.h"

namespace lockstep::collective {

/// All-reduce for hosts with several ranks each, where messages inside a host are cheap: only one
/// rank of each host, its leader, sends to other hosts, by the given algorithm. `host_of_rank`
/// gives each rank's host; throws BadInput where the ranks of a host are not consecutive.
///
/// Takes three rounds more than the algorithm among the leaders. In canonical order if the
/// algorithm is.
Plan two_level(const std::vector<int>& host_of_rank, Algorithm between_leaders,
               const Shards& shards, int64_t count);

}  // namespace lockstep::collective
