#pragma once

#include <cstdint>
#include <vector>

#include "collective/plan/plan.h"

namespace lockstep::collective {

/// Ranges that a rank has, in order.
using Share = std::vector<Range>;

/// Every rank's slice (base/range.h) of its own bucket reaches all buckets, in ceil(log2 n)
/// rounds. A rank sends (n-1)/n of the bucket, which is the least.
Plan all_gather(int world, int64_t count);

/// The same for any shares, by rank, that cut the bucket.
Plan all_gather(const std::vector<Share>& shares, int64_t count);

}  // namespace lockstep::collective
