#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/element.h"
#include "base/range.h"

namespace lockstep::parallel {

/// The places of gradients in contiguous memory, and its division into buckets.
struct GradientLayout {
  struct Place {
    size_t bucket = 0;
    int64_t begin = 0;  ///< in bytes, a multiple of 64
    int64_t bytes = 0;
  };
  struct Bucket {
    int64_t begin = 0;  ///< in bytes
    int64_t end = 0;
    Type type = Type::f32;
    std::vector<size_t> parameters;

    int64_t count() const { return (end - begin) / static_cast<int64_t>(bytes_of(type)); }
  };

  std::vector<Place> places;    ///< by parameter
  std::vector<Bucket> buckets;  ///< in the order in which they are filled
  int64_t bytes = 0;
};

/// What so many bytes of a gradient need there: the next one begins at a multiple of 64.
int64_t bytes_in_layout(int64_t bytes);

struct GradientSize {
  int64_t count;
  Type type;
};

struct BucketLimits {
  /// The first bucket is small, so that communication begins early.
  int64_t first_bytes = int64_t{1} << 20;
  int64_t bytes = int64_t{25} << 20;
};

/// The slices (base/range.h) of all buckets that belong to a rank: what a reduce-scatter of each
/// leaves there. In elements of the whole memory, which must be of one type.
std::vector<Range> slices_of_rank(const GradientLayout& layout, int world, int rank);

/// The assumed order of gradients in the first backward pass: the last layers' first.
std::vector<size_t> last_first(size_t parameters);

/// Lays gradients out in the order `ready` in which they become available (numbers of parameters,
/// each once). A bucket ends when it has reached its limit or the type changes; a gradient is never
/// divided. Throws BadInput for limits under 1.
GradientLayout lay_out(std::span<const GradientSize> gradients, std::span<const size_t> ready,
                       const BucketLimits& limits);

}  // namespace lockstep::parallel
