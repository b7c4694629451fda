#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/range.h"

namespace lockstep::parallel {

/// Elements of one parameter, in the order of its memory.
struct Piece {
  size_t parameter = 0;
  Range range;

  bool operator==(const Piece&) const = default;
};
/// What one worker updates.
using Pieces = std::vector<Piece>;

/// A parameter that is to be divided.
struct DividedParameter {
  int64_t elements = 0;
  /// Parameters of one kind have equally much state per element: it is divided evenly for each.
  size_t kind = 0;
};

/// Every worker's pieces: of each kind, a contiguous slice of the concatenation of its parameters.
/// Slices are equally long up to kPieceAlignment elements.
std::vector<Pieces> divide_elements(const std::vector<DividedParameter>& parameters, int world);

/// The same, without cutting parameters: the largest ones first, each to the worker that has the
/// fewest elements so far.
std::vector<Pieces> divide_parameters(const std::vector<DividedParameter>& parameters, int world);

/// LibTorch's loops handle this many elements, or a divisor of it, at a time, and the rest one by
/// one, which rounds 16-bit numbers differently. Pieces that begin at multiples of it are computed
/// as they are in the whole parameter.
constexpr int64_t kPieceAlignment = 64;

}  // namespace lockstep::parallel
