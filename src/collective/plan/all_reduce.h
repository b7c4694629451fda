#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/plan/plan.h"
#include "collective/plan/shards.h"

namespace lockstep::collective {

/// `engine` is the transport's own, such as MPI_Allreduce; all others are plans.
enum class Algorithm { one_to_all, tree, butterfly, ring, halving_doubling, direct, engine };

/// "one_to_all", "tree", ...; in the order of Algorithm, those that are plans.
const std::vector<std::string>& algorithm_names();

const std::string& name_of(Algorithm algorithm);

/// Throws BadInput with the nearest name.
Algorithm parse_algorithm(const std::string& name);

/// Whether the algorithm adds along the canonical tree, so that its bits are those of every other
/// one that does. `ring` and `engine` add in orders of their own.
bool is_canonical(Algorithm algorithm);

/// Every rank's bucket of `count` elements becomes the sum over all shards. Any number of ranks,
/// any count. In rounds, with h the height of the rank tree, which is ceil(log2 n) or little more:
///
/// one_to_all        2 (n-1); rank 0 collects one bucket after another, then sends
/// tree              2 h; to rank 0 along the tree, and back
/// butterfly         h; both parts of every node exchange whole buckets
/// ring              2 (n-1) of 1/n of the bucket
/// halving_doubling  h + ceil(log2 n); both parts of a node exchange what the other will keep
/// direct            2; every rank sums a slice of its own out of everyone's bucket
///
/// The last three send 2 (n-1)/n of the bucket per rank, which no all-reduce can undercut.
///
/// Where a rank's shards are more than one node of the canonical tree, `direct` sends all its terms
/// and the others take one round more, at the beginning, to bring terms together.
Plan all_reduce(Algorithm algorithm, const Shards& shards, int64_t count);

/// With one shard a rank.
Plan all_reduce(Algorithm algorithm, int world, int64_t count);

}  // namespace lockstep::collective
