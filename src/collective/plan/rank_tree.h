#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collective/plan/shards.h"

namespace lockstep::collective {

/// A node of the tree over ranks: its left part is begin .. middle-1, its right part middle ..
/// end-1.
struct Node {
  int begin;
  int middle;
  int end;

  /// How many ranks the part that `rank` is in has.
  int part_of(int rank) const { return rank < middle ? middle - begin : end - middle; }
};

/// The canonical tree over shards, cut off where a node belongs to one rank: a binary tree with
/// ranks for leaves.
class RankTree {
 public:
  explicit RankTree(const Shards& shards);

  /// Levels of additions.
  int depth() const { return vertices_.front().height; }

  /// The node over `rank` that adds at `level`, counted from the leaves: its parts are at most
  /// `level` high, itself level + 1. Nothing where a low part of the tree has no node of that level
  /// and its ranks wait.
  std::optional<Node> node(int rank, int level) const;

  /// Rank r is responsible for shards bounds[r] .. bounds[r+1]-1, which are one node of the tree
  /// over shards. Not the shards it owns, where those are not one node.
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

}  // namespace lockstep::collective
