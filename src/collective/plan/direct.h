#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective/plan/shards.h"

namespace lockstep::collective {

/// Ranks first .. last-1.
struct Group {
  int first;
  int last;

  int size() const { return last - first; }
};

/// All-reduce: see all_reduce.h. Terms need not be whole nodes: no round is added for them.
Plan direct(const Shards& shards, int64_t count);

/// Slice r (base/range.h) of rank r's bucket becomes the sum of all, in one round; the rest
/// of the buckets is used up. Sends (n-1)/n of a bucket, which is the least.
Plan reduce_scatter(const Shards& shards, int64_t count);

/// Every term that the group's ranks own, in order, and where `rank`, one of them, has it: its own
/// in slots 0, 1, ..., those of the others after them.
std::vector<Placed> place_terms(const Shards& shards, Group group, int rank);

/// The round in which each rank of a group gets its slice of all the group's terms.
Round exchange_slices(const Shards& shards, Group group, int rank, int64_t count);

}  // namespace lockstep::collective
