#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/plan.h"

namespace lockstep::collective {

enum class Algorithm { one_to_all, tree, butterfly, ring, halving_doubling, direct };

/// "one_to_all", "tree", ...; in the order of Algorithm.
const std::vector<std::string>& algorithm_names();

/// Throws BadInput with the nearest name.
Algorithm parse_algorithm(const std::string& name);

/// Whether the algorithm adds along the canonical tree, so that its bits are those of every other
/// one that does. `ring` adds in an order of its own.
bool is_canonical(Algorithm algorithm);

/// Every rank's bucket of `count` elements becomes the sum of all. World sizes from 1, counts from
/// 0.
///
/// one_to_all        2 (n-1) rounds; rank 0 collects one bucket after another, then sends
/// tree              2 ceil(log2 n); to rank 0 along the canonical tree, and back
/// butterfly         ceil(log2 n); both halves of every node exchange whole buckets
/// ring              2 (n-1) rounds of 1/n of the bucket
/// halving_doubling  2 ceil(log2 n); both halves of a node exchange what the other will keep
/// direct            2; every rank sums a slice of its own out of everyone's bucket
///
/// The last three send 2 (n-1)/n of the bucket per rank, which no all-reduce can undercut.
Plan all_reduce(Algorithm algorithm, int world, int64_t count);

}  // namespace lockstep::collective
