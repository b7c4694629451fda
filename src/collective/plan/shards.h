#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/plan/plan.h"

namespace lockstep::collective {

/// The canonical order of addition is one binary tree over leaves 0 .. n-1, which are shards. The
/// node that covers [begin, end) adds the node over [begin, middle) and the node over [middle,
/// end). The left part has the largest power of two of leaves that is less than all of them, so the
/// tree over a power of two is perfect, and every aligned group of a power of two is a node of the
/// tree.
///
/// Floating-point addition is commutative but not associative: all sums along this tree have the
/// same bits.
int64_t middle(int64_t begin, int64_t end);

/// Levels of additions over n leaves: ceil(log2 n).
int depth(int64_t leaves);

/// The sum over shards begin .. end-1, which are one node of the canonical tree.
struct Term {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t width() const { return end - begin; }
  bool operator==(const Term&) const = default;
};

/// Which rank owns which shards of the global batch: every rank owns a contiguous range of at least
/// one, in the order of ranks. A rank adds its own shards along the canonical tree as far as
/// possible. What is left are its *terms*, one for each largest node of the tree inside its range.
/// Two or four ranks that share eight shards have one term each; of three ranks, the second owns
/// shards 2, 3 and 4, and has the terms 2-3 and 4.
class Shards {
 public:
  /// Rank r owns shards r V / w .. (r+1) V / w - 1. Throws BadInput for less than one shard a rank.
  static Shards even(int64_t shards, int world);

  /// Rank r owns shards bounds[r] .. bounds[r+1]-1. Throws BadInput unless bounds grow from 0.
  explicit Shards(std::vector<int64_t> bounds);

  /// Every shard cut into so many, which its rank owns.
  Shards cut(int64_t pieces) const;

  int world_size() const { return static_cast<int>(bounds_.size()) - 1; }
  /// The number of shards of all ranks together, which is what a mean divides by.
  int64_t count() const { return bounds_.back(); }
  const std::vector<int64_t>& bounds() const { return bounds_; }

  /// In order; term i is in the rank's slot i.
  const std::vector<Term>& terms_of(int rank) const { return terms_[static_cast<size_t>(rank)]; }
  int most_terms() const;

 private:
  std::vector<int64_t> bounds_;
  std::vector<std::vector<Term>> terms_;  // by rank
};

/// The largest nodes of the tree over `shards` that lie in begin .. end-1.
std::vector<Term> largest_nodes(int64_t shards, int64_t begin, int64_t end);

/// A term, and the slot in which a rank has it.
struct Placed {
  Term term;
  Slot slot;
};

/// Folds terms that together are one node, in order, and returns the slot that then holds the
/// node's sum: the bucket if it is one of them, else the first term's slot.
Slot fold_terms(Round& round, std::span<const Placed> terms, Range range);

/// Ranks first .. last-1.
struct RankRange {
  int first;
  int last;

  int size() const { return last - first; }
};

/// Every term that the group's ranks own, in order, and the slot in which `rank`, one of them, has
/// it: its own terms in slots 0, 1, ..., those of the others in the slots after them.
std::vector<Placed> place_terms(const Shards& shards, RankRange group, int rank);

/// The round in which each rank of a group gets its slice of all the group's terms.
Round exchange_slices(const Shards& shards, RankRange group, int rank, int64_t count);

}  // namespace lockstep::collective
