#pragma once

#include <cstdint>

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

}  // namespace lockstep::collective
