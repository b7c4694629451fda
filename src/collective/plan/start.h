#pragma once

#include <memory>
#include <vector>

#include "collective/plan/plan.h"
#include "collective/plan/rank_tree.h"
#include "collective/plan/shards.h"

namespace lockstep::collective {

/// What algorithms along the rank tree start from: every rank holds one sum, over the node of
/// shards that it is responsible for. Where ranks own whole nodes that is so already; elsewhere
/// one round moves terms to the ranks responsible for them, which fold.
///
/// A rank whose bucket was moved away holds its sum elsewhere, until it first adds: then the
/// other part's sum arrives in the bucket, and its own is folded into that.
class Start {
 public:
  Start(const Shards& shards, int64_t count);

  int world_size() const { return static_cast<int>(ranks_.size()); }
  int64_t count() const { return count_; }
  Range whole() const { return {0, count_}; }
  const RankTree& tree() const { return tree_; }

  /// The round of moves, or no round; to be followed by an algorithm.
  static Plan plan(const std::shared_ptr<const Start>& start);

  /// Where `rank` holds its sum until it first adds.
  Slot held(int rank) const { return ranks_[static_cast<size_t>(rank)].held; }

  /// Where `rank` holds the sum over its part of `node`, when it is about to add there.
  Slot sum(int rank, const Node& node) const;

  /// Gets the other part's sum from `peer` and adds it, in the bucket.
  void add_from(Round& round, int rank, const Node& node, int peer, Range range) const;

  /// The first slot that is free once the algorithm begins.
  Slot scratch(int rank) const { return ranks_[static_cast<size_t>(rank)].scratch; }
  /// Slots that any rank needs for the moves, and for one scratch slot after.
  int slots() const { return slots_; }

 private:
  struct Rank {
    Round round;
    Slot held = kBucket;
    Slot scratch = 1;
  };

  std::vector<std::vector<Placed>> move_terms(const Shards& shards);

  int64_t count_;
  RankTree tree_;
  std::vector<Rank> ranks_;
  int slots_ = 0;
  bool moves_;
};

/// A single rank has added everything by itself: no round for one shard, else one that finishes.
Plan finish_alone(const Shards& shards, int64_t count);

}  // namespace lockstep::collective
