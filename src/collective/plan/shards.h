#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/plan/plan.h"

namespace lockstep::collective {

/// The sum over shards begin .. end-1, which are one node of the canonical tree (order.h).
struct Term {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t width() const { return end - begin; }
  bool operator==(const Term&) const = default;
};

/// Who owns which shards of the global batch: every rank a contiguous range of at least one, in the
/// order of ranks. A rank adds its own shards along the canonical tree as far as that goes: what is
/// left are its *terms*, one for each largest node of the tree inside its range. Two or four ranks
/// of eight shards have one term each; of three ranks, the second owns shards 2, 3 and 4, and has
/// the terms 2-3 and 4.
class Shards {
 public:
  /// Rank r owns shards r V / w .. (r+1) V / w - 1. Throws BadInput for less than one shard a rank.
  static Shards even(int64_t shards, int world);

  /// Rank r owns shards bounds[r] .. bounds[r+1]-1. Throws BadInput unless bounds grow from 0.
  explicit Shards(std::vector<int64_t> bounds);

  int world_size() const { return static_cast<int>(bounds_.size()) - 1; }
  /// Of all ranks together: what a mean divides by.
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

/// A term, and where a rank has it.
struct Placed {
  Term term;
  Slot slot;
};

/// Folds terms that make up one node, in order, and returns the slot that then holds the node's
/// sum: the bucket if it is one of them, or the first one's slot.
Slot fold_terms(Round& round, std::span<const Placed> terms, Range range);

}  // namespace lockstep::collective
