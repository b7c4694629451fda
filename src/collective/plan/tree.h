#pragma once

#include <memory>

#include "collective/plan/start.h"

namespace lockstep::collective {

/// All-reduce: see all_reduce.h.
Plan tree(const std::shared_ptr<const Start>& start);

/// The root's bucket becomes the sum of all, in ceil(log2 n) rounds, in canonical order; the
/// buckets of the others are used up. Shards that are not whole nodes take one round more.
Plan reduce(const Shards& shards, int64_t count, int root);

/// Every bucket becomes the root's, in ceil(log2 n) rounds of whole buckets: best for small ones.
Plan broadcast(int world, int64_t count, int root);

/// The same by scatter and all-gather, in 1 + ceil(log2 n) rounds, in which the root sends less
/// than two buckets and the others less than one: best for large ones.
Plan broadcast_slices(int world, int64_t count, int root);

/// Throws BadInput unless `root` is one of `world` ranks.
void check_root(int root, int world);

}  // namespace lockstep::collective
