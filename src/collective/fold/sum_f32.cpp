// The inner loop of training with two to four workers on a host: each sums its slice of all buckets
// and writes the sum to all of them, or to its own. One pass, a few cache lines of each vector at a
// time, so that every line is read from memory once and written once. The processor prefetches by
// itself: software prefetching of 512 bytes to 8 KiB ahead made it 10 to 40 % slower.
#include "base/processor.h"
#include "collective/fold/kernels.h"

namespace lockstep::collective {
namespace {

// Into a reference: how a wide register is returned depends on the calling convention.
template <size_t n, typename Value>
[[gnu::always_inline]] inline void add_all(const Value (&x)[n], Value& sum) {
  if constexpr (n == 2) sum = x[0] + x[1];
  if constexpr (n == 3) sum = x[0] + x[1] + x[2];
  if constexpr (n == 4) sum = (x[0] + x[1]) + (x[2] + x[3]);
}

template <size_t n, size_t results>
struct Vectors {
  Vectors(const std::byte* const* terms, std::byte* const* sums) {
    for (size_t k = 0; k < n; ++k) from[k] = reinterpret_cast<const float*>(terms[k]);
    for (size_t k = 0; k < results; ++k) to[k] = reinterpret_cast<float*>(sums[k]);
  }

  const float* from[n];
  float* to[results];
};

template <size_t n, size_t results>
[[gnu::always_inline]] inline void sum_one_by_one(const Vectors<n, results>& vectors, size_t begin,
                                                  size_t end, int64_t divide_by) {
  INDEPENDENT_ITERATIONS
  for (size_t i = begin; i < end; ++i) {
    float x[n];
    for (size_t k = 0; k < n; ++k) x[k] = vectors.from[k][i];
    float sum = 0;
    add_all(x, sum);
    if (divide_by != 1) sum /= static_cast<float>(divide_by);
    for (size_t k = 0; k < results; ++k) vectors.to[k][i] = sum;
  }
}

template <size_t n, size_t results>
void sum_portable(const std::byte* const* terms, std::byte* const* sums, size_t bytes,
                  int64_t divide_by) {
  sum_one_by_one(Vectors<n, results>(terms, sums), 0, bytes / sizeof(float), divide_by);
}

#ifdef __x86_64__

constexpr size_t kLane = 8;
constexpr size_t kStep = 4 * kLane;

template <size_t n, size_t results>
FOR_WIDE_REGISTERS void sum_wide(const std::byte* const* terms, std::byte* const* to, size_t bytes,
                                 int64_t divide_by) {
  const Vectors<n, results> vectors(terms, to);
  const size_t count = bytes / sizeof(float);
  const __m256 by = _mm256_set1_ps(static_cast<float>(divide_by));
  size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    __m256 sums[kStep / kLane];
    for (size_t lane = 0; lane < kStep / kLane; ++lane) {
      __m256 x[n];
      for (size_t k = 0; k < n; ++k) x[k] = _mm256_loadu_ps(vectors.from[k] + i + lane * kLane);
      add_all(x, sums[lane]);
      if (divide_by != 1) sums[lane] = _mm256_div_ps(sums[lane], by);
    }
    for (size_t k = 0; k < results; ++k)
      for (size_t lane = 0; lane < kStep / kLane; ++lane)
        _mm256_storeu_ps(vectors.to[k] + i + lane * kLane, sums[lane]);
  }
  sum_one_by_one(vectors, i, count, divide_by);
}

#else

template <size_t n, size_t results>
void sum_wide(const std::byte* const* terms, std::byte* const* to, size_t bytes,
              int64_t divide_by) {
  sum_portable<n, results>(terms, to, bytes, divide_by);
}

#endif

template <size_t n>
SumF32 choose(size_t results, Instructions instructions) {
  const bool wide = instructions == Instructions::best && has_wide_registers();
  if (results == n) return wide ? &sum_wide<n, n> : &sum_portable<n, n>;
  if (results == 1) return wide ? &sum_wide<n, 1> : &sum_portable<n, 1>;
  return nullptr;
}

}  // namespace

SumF32 sum_f32(size_t n, size_t results, Instructions instructions) {
  switch (n) {
    case 2:
      return choose<2>(results, instructions);
    case 3:
      return choose<3>(results, instructions);
    case 4:
      return choose<4>(results, instructions);
    default:
      return nullptr;
  }
}

}  // namespace lockstep::collective
