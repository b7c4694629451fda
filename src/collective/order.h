#pragma once

#include <cstdint>
#include <optional>

namespace lockstep::collective {

/// The canonical order of addition: one binary tree over leaves 0 .. n-1, in which the node that
/// covers [begin, end) adds the node over [begin, middle) and the node over [middle, end). The left
/// part has the largest power of two of leaves that leaves something for the right, so the tree of
/// a power of two is perfect and every aligned group of a power of two is a node of it.
///
/// Floating-point addition commutes but does not associate: whoever adds along this tree gets the
/// same bits.
int64_t middle(int64_t begin, int64_t end);

/// Levels of additions over n leaves: ceil(log2 n).
int depth(int64_t leaves);

/// A node of the tree over ranks: its left part is begin .. middle-1, its right part middle ..
/// end-1.
struct Node {
  int begin;
  int middle;
  int end;
};

/// The node over `rank` that adds at `level`, counted from the leaves: its subtrees are at most
/// `level` deep, itself level + 1. Nothing where a shallow part of the tree has no node of that
/// level and its ranks wait.
std::optional<Node> find_node(int world, int rank, int level);

}  // namespace lockstep::collective
