#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collective/plan/plan.h"
#include "collective/plan/shards.h"

namespace lockstep::collective {

/// A node of the tree over ranks: its left part is begin .. middle-1, its right part middle ..
/// end-1.
struct Node {
  int begin;
  int middle;
  int end;

  /// The number of ranks in the part that `rank` is in.
  int part_of(int rank) const { return rank < middle ? middle - begin : end - middle; }
};

/// The canonical tree over shards, cut off where a node belongs to one rank: a binary tree with
/// ranks as leaves.
class RankTree {
 public:
  explicit RankTree(const Shards& shards);

  /// Levels of additions.
  int depth() const { return vertices_.front().height; }

  /// The node over `rank` that adds at `level`, counted from the leaves: its parts have at most
  /// `level` levels, the node itself level + 1. Nothing where a low part of the tree has no node of
  /// that level, so that its ranks are idle.
  std::optional<Node> node(int rank, int level) const;

  /// Rank r is responsible for shards bounds[r] .. bounds[r+1]-1, which are one node of the tree
  /// over shards. These are not the shards that it owns, where those are not one node.
  const std::vector<int64_t>& bounds() const { return bounds_; }
  int responsible_for(int64_t shard) const;

 private:
  struct Vertex {
    Node node;
    int height;
    size_t left;
    size_t right;
  };
  class Cut;

  size_t grow(Cut& cut, Term shards, int begin, int end);

  std::vector<int64_t> bounds_;
  std::vector<Vertex> vertices_;  // the root first
};

/// Where algorithms along the rank tree start: every rank holds one sum, over the node of shards
/// that it is responsible for. Where every rank owns a whole node, that is the case from the
/// beginning. Elsewhere one round sends terms to the ranks responsible for them, which fold them.
///
/// A rank that sent its bucket away holds its sum in another slot until it first adds: then the
/// other part's sum arrives in the bucket, and the rank's own sum is folded into that.
class Start {
 public:
  Start(const Shards& shards, int64_t count);

  int world_size() const { return static_cast<int>(ranks_.size()); }
  int64_t count() const { return count_; }
  Range whole() const { return {0, count_}; }
  const RankTree& tree() const { return tree_; }

  /// The round that sends terms, or no round; the algorithm's own rounds follow.
  static Plan plan(const std::shared_ptr<const Start>& start);

  /// Where `rank` holds its sum until it first adds.
  Slot held(int rank) const { return ranks_[static_cast<size_t>(rank)].held; }

  /// Where `rank` holds the sum over its part of `node`, just before it adds there.
  Slot sum(int rank, const Node& node) const;

  /// Receives the other part's sum from `peer` and adds it, in the bucket.
  void add_from(Round& round, int rank, const Node& node, int peer, Range range) const;

  /// The first slot that is free once the algorithm begins.
  Slot scratch(int rank) const { return ranks_[static_cast<size_t>(rank)].scratch; }
  /// The number of slots that any rank needs: for its terms, and for one scratch slot.
  int slots() const { return slots_; }

 private:
  struct RankTerms {
    Round round;
    Slot held = kBucket;
    Slot scratch = 1;
  };

  std::vector<std::vector<Placed>> move_terms(const Shards& shards);

  int64_t count_;
  RankTree tree_;
  std::vector<RankTerms> ranks_;
  int slots_ = 0;
  bool moves_;
};

/// The plan of a single rank, which has added all shards already: no round for one shard, else a
/// round that finishes the sum.
Plan finish_alone(const Shards& shards, int64_t count);

}  // namespace lockstep::collective
