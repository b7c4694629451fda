#pragma once

#include "kernels/winograd_tiling.h"

/// The products at Winograd's points, in the words of winograd.cpp; `filters` are those of `pairs`.
/// Without external linkage, for the reason winograd_tiling.h gives.
namespace lockstep::kernels {
namespace {

// kRows tiles times kPair out channels, summed over all in channels.
template <typename T>
[[gnu::always_inline]] inline void multiply_rows(int64_t in_blocks, int64_t block_stride,
                                                 const T* inputs, const T* filters, T* results) {
  Lanes<T> sums[kRows][2] = {};
  for (int64_t block = 0; block < in_blocks; ++block, inputs += block_stride)
    for (int64_t lane = 0; lane < kLanes; ++lane, filters += kPair) {
      const Lanes<T> f0 = load(filters), f1 = load(filters + kLanes);
#pragma GCC unroll 6
      for (int64_t row = 0; row < kRows; ++row) {
        const T value = inputs[row * kLanes + lane];
        sums[row][0] += f0 * value;
        sums[row][1] += f1 * value;
      }
    }
#pragma GCC unroll 6
  for (int64_t row = 0; row < kRows; ++row) {
    store(results + row * kLanes, sums[row][0]);
    store(results + block_stride + row * kLanes, sums[row][1]);
  }
}

template <typename T>
void multiply(const Tiling& tiling, Pairs pairs, const T* inputs, const T* filters, T* results) {
  const int64_t block_stride = tiling.batch * kLanes;
#pragma omp parallel for
  for (int64_t point = 0; point < kPoints; ++point)
    for (int64_t pair = pairs.begin; pair < pairs.end; ++pair)
      for (int64_t tile = 0; tile < tiling.batch; tile += kRows)
        multiply_rows(
            tiling.in_blocks, block_stride, inputs + point * tiling.input_stride() + tile * kLanes,
            filters + (pair - pairs.begin) * tiling.pair_stride() + point * tiling.filter_stride(),
            results + point * tiling.result_stride() + 2 * pair * block_stride + tile * kLanes);
}

// kHalf in channels times kPair out channels, summed over all tiles.
template <typename T>
[[gnu::always_inline]] inline void multiply_tiles(bool first, int64_t tiles, int64_t block_stride,
                                                  const T* inputs, const T* gradients, T* filters) {
  Lanes<T> sums[kHalf][2] = {};
  if (!first)
#pragma GCC unroll 4
    for (int64_t i = 0; i < kHalf; ++i) {
      sums[i][0] = load(filters + i * kPair);
      sums[i][1] = load(filters + i * kPair + kLanes);
    }
  for (int64_t tile = 0; tile < tiles; ++tile, inputs += kLanes, gradients += kLanes) {
    const Lanes<T> g0 = load(gradients), g1 = load(gradients + block_stride);
#pragma GCC unroll 4
    for (int64_t i = 0; i < kHalf; ++i) {
      sums[i][0] += g0 * inputs[i];
      sums[i][1] += g1 * inputs[i];
    }
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < kHalf; ++i) {
    store(filters + i * kPair, sums[i][0]);
    store(filters + i * kPair + kLanes, sums[i][1]);
  }
}

template <typename T>
void add_products(bool first, const Tiling& tiling, Pairs pairs, const T* inputs,
                  const T* gradients, T* filters) {
  const int64_t block_stride = tiling.batch * kLanes;
#pragma omp parallel for
  for (int64_t point = 0; point < kPoints; ++point)
    for (int64_t pair = pairs.begin; pair < pairs.end; ++pair)
      for (int64_t channel = 0; channel < tiling.in_blocks * kLanes; channel += kHalf)
        multiply_tiles(first, tiling.batch, block_stride,
                       inputs + point * tiling.input_stride() + channel / kLanes * block_stride +
                           channel % kLanes,
                       gradients + point * tiling.result_stride() + 2 * pair * block_stride,
                       filters + (pair - pairs.begin) * tiling.pair_stride() +
                           point * tiling.filter_stride() + channel * kPair);
}

}  // namespace
}  // namespace lockstep::kernels
