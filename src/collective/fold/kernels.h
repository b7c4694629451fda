#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element.h"

/// Before a loop: no iteration writes what another one reads, so that it can be vectorised.
#if defined(__clang__)
#define INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

namespace lockstep::collective {

/// Which of the processor's instructions to use: all it has, or those that all processors have.
/// Both give the same bits (except for the payload of a NaN that is made of two).
enum class Instructions { best, portable };

/// The loops over elements. `out` may be `a` or `b`; otherwise memory does not overlap.
struct FoldKernels {
  /// out = a (+, min, max) b.
  void (*join)(std::byte* out, const std::byte* a, const std::byte* b, size_t bytes);
  /// into = into (+, min, max) from.
  void (*combine)(std::byte* into, const std::byte* from, size_t bytes);
  /// data = data / n.
  void (*divide)(std::byte* data, size_t bytes, int64_t n);
};
FoldKernels kernels(Type type, Operation operation, Instructions instructions);

/// One pass over n = 2, 3 or 4 vectors of f32: loads each, adds along the canonical tree over n
/// leaves, divides, and stores the result n times or once. nullptr for other numbers.
using SumF32 = void (*)(const std::byte* const* terms, std::byte* const* results, size_t bytes,
                        int64_t divide_by);
SumF32 sum_f32(size_t n, size_t results, Instructions instructions);

}  // namespace lockstep::collective
