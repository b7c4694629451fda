#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// Which numbers a dropout lets through: a pure function of `seed` and their position.
struct Drop {
  uint64_t seed;
  uint32_t below;  ///< numbers whose hash is smaller are dropped
  float scale;     ///< of the others
};

/// y = x, dropped and scaled. Compiled for AVX2 and for AVX-512, with the same bits. x may be y.
using Dropout = void (*)(const Drop&, int64_t count, const float* x, float* y);

/// That for this processor.
Dropout dropout();

namespace avx2 {
extern const Dropout kDropout;
}  // namespace avx2
namespace avx512 {
extern const Dropout kDropout;
}  // namespace avx512

}  // namespace lockstep::kernels
