#pragma once

#include "kernels/products.h"
#include "kernels/winograd_tiling.h"

/// The products at Winograd's points, in the words of winograd.cpp; `filters` are those of `pairs`.
namespace lockstep::kernels {
namespace {

// Tiles times out channels, summed over all in channels.
template <typename T>
void multiply(const Tiling& tiling, Pairs pairs, const T* inputs, const T* filters, T* results) {
  constexpr Link kOne = {0, 0};
  const Products<T> by = products<T>();
  const int64_t block_stride = tiling.batch * kLanes;
#pragma omp parallel for
  for (int64_t point = 0; point < kPoints; ++point)
    by.gather({.source = inputs + point * tiling.input_stride(),
               .blocks = tiling.in_blocks,
               .chain = tiling.in_blocks,
               .block_stride = block_stride,
               .links = &kOne,
               .link_count = 1,
               .filters = filters + point * tiling.filter_stride(),
               .taps = 1,
               .results = results + point * tiling.result_stride() + 2 * pairs.begin * block_stride,
               .spacing = kLanes,
               .second = block_stride,
               .rows = tiling.batch,
               .pairs = pairs.end - pairs.begin,
               .filter_stride = tiling.pair_stride()});
}

// In channels times out channels, summed over all tiles.
template <typename T>
void add_products(bool first, const Tiling& tiling, Pairs pairs, const T* inputs,
                  const T* gradients, T* filters) {
  const Products<T> by = products<T>();
  const Run all = {0, 0, tiling.batch};
  const int64_t block_stride = tiling.batch * kLanes;
#pragma omp parallel for
  for (int64_t point = 0; point < kPoints; ++point)
    for (int64_t block = 0; block < tiling.in_blocks; ++block)
      by.outer({.x = inputs + point * tiling.input_stride() + block * block_stride,
                .x_spacing = kLanes,
                .dy = gradients + point * tiling.result_stride() + 2 * pairs.begin * block_stride,
                .second = block_stride,
                .runs = &all,
                .run_count = 1,
                .products = filters + point * tiling.filter_stride() + block * kLanes * kPair,
                .pairs = pairs.end - pairs.begin,
                .dy_stride = 2 * block_stride,
                .product_stride = tiling.pair_stride(),
                .sum = first ? Sum::begins : Sum::goes_on});
}

}  // namespace
}  // namespace lockstep::kernels
