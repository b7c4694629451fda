#pragma once

#include "kernels/dropout.h"

/// The loop behind dropout.h, for the processor that the including file is compiled for.
namespace lockstep::kernels {
namespace {

// Every bit of the input affects every bit of the result (constants by Chris Wellons, found by
// search for the least bias).
[[gnu::always_inline]] inline uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

void drop(const Drop& by, int64_t count, const float* x, float* y) {
  constexpr int64_t kPart = 4096;
  const Drop of = by;
#pragma omp parallel for
  for (int64_t begin = 0; begin < count; begin += kPart) {
    const int64_t end = begin + kPart < count ? begin + kPart : count;
    const uint64_t place = of.seed + static_cast<uint64_t>(begin / kPart) * 0x9e3779b97f4a7c15ULL;
    const auto low = static_cast<uint32_t>(place), high = static_cast<uint32_t>(place >> 32);
    for (int64_t i = begin; i < end; ++i) {
      const uint32_t hash = mixed(mixed(static_cast<uint32_t>(i - begin) + low) ^ high);
      y[i] = hash < of.below ? 0.0F : x[i] * of.scale;
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
