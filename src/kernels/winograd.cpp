// Winograd's minimal filtering F(4 x 4, 3 x 3) (Lavin and Gray 2015): a *tile* of 4 x 4 results
// needs 6 x 6 inputs. Transformed, both are 36 *points*, and at each point a convolution is a plain
// product of matrices, tiles x channels times channels x channels: 36 multiplications where the
// definition needs 144. A *batch* of tiles goes through all three stages while it is in the cache:
//
//     inputs  = transform of x          [point][block of in channels][tile][8]
//     results = inputs * filters        [point][block of out channels][tile][8]
//     y       = transform of results
//
// Filters are [pair of blocks of out channels][point][in channel][16]. They are four times the
// weights: of layers with *many* channels only one pair's are held at a time. The gradient of the
// weights goes the same way backwards: the transforms are the transposed ones, and the product sums
// over tiles. Sums always run in one order, whatever the number of threads.
#include "kernels/winograd.h"

#include "kernels/lanes.h"
#include "kernels/winograd_products.h"
#include "kernels/winograd_tiling.h"
#include "kernels/winograd_transforms.h"

namespace lockstep::kernels {
namespace {

template <typename T>
void transform_inputs(const ConvShape& shape, const Tiling& tiling, int64_t first, const T* x,
                      T* inputs) {
  const int64_t stride = tiling.input_stride();
#pragma omp parallel for
  for (int64_t block = 0; block < tiling.in_blocks; ++block)
    for (int64_t i = 0; i < tiling.batch; ++i) {
      T* to = inputs + (block * tiling.batch + i) * kLanes;
      if (first + i >= tiling.tiles) {
        for (int64_t point = 0; point < kPoints; ++point) store(to + point * stride, Lanes<T>{});
        continue;
      }
      const Tile tile = tile_at(tiling, first + i);
      Lanes<T> a[kPoints], b[kPoints];
      read_tile<kSide>(
          image_of(x, tile.sample, tiling.in_blocks, block, shape.in_height, shape.in_width),
          shape.in_height, shape.in_width, tile.y - shape.padding, tile.x - shape.padding, a);
      for (int64_t j = 0; j < kSide; ++j) transform_input<kSide>(a + j, b + j);
      for (int64_t j = 0; j < kSide; ++j) {
        Lanes<T> row[kSide];
        transform_input<1>(b + j * kSide, row);
        for (int64_t k = 0; k < kSide; ++k) store(to + (j * kSide + k) * stride, row[k]);
      }
    }
}

template <typename T>
void transform_gradients(const ConvShape& shape, const Tiling& tiling, int64_t first, const T* dy,
                         T* results) {
  const int64_t stride = tiling.result_stride();
  const int64_t blocks = shape.out_channels / kLanes;
#pragma omp parallel for
  for (int64_t block = 0; block < tiling.out_blocks; ++block)
    for (int64_t i = 0; i < tiling.batch; ++i) {
      T* to = results + (block * tiling.batch + i) * kLanes;
      if (first + i >= tiling.tiles || block >= blocks) {
        for (int64_t point = 0; point < kPoints; ++point) store(to + point * stride, Lanes<T>{});
        continue;
      }
      const Tile tile = tile_at(tiling, first + i);
      Lanes<T> a[kTile * kTile], b[kSide * kTile];
      read_tile<kTile>(
          image_of(dy, tile.sample, blocks, block, shape.out_height(), shape.out_width()),
          shape.out_height(), shape.out_width(), tile.y, tile.x, a);
      for (int64_t j = 0; j < kTile; ++j) spread_gradient<kTile, kTile>(a + j, b + j);
      for (int64_t j = 0; j < kSide; ++j) {
        Lanes<T> row[kSide];
        spread_gradient<1, 1>(b + j * kTile, row);
        for (int64_t k = 0; k < kSide; ++k) store(to + (j * kSide + k) * stride, row[k]);
      }
    }
}

template <typename T>
void transform_results(const ConvShape& shape, const Tiling& tiling, int64_t first,
                       const T* results, T* y) {
  const int64_t stride = tiling.result_stride();
  const int64_t blocks = shape.out_channels / kLanes;
  const int64_t count = tiling.tiles - first < tiling.batch ? tiling.tiles - first : tiling.batch;
#pragma omp parallel for
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t i = 0; i < count; ++i) {
      const T* from = results + (block * tiling.batch + i) * kLanes;
      const Tile tile = tile_at(tiling, first + i);
      Lanes<T> a[kSide * kTile], b[kTile * kTile];
      for (int64_t j = 0; j < kSide; ++j) {
        Lanes<T> row[kSide];
        for (int64_t k = 0; k < kSide; ++k) row[k] = load(from + (j * kSide + k) * stride);
        transform_result<1, 1>(row, a + j * kTile);
      }
      for (int64_t j = 0; j < kTile; ++j) transform_result<kTile, kTile>(a + j, b + j);
      write_tile<T>(b, shape.out_height(), shape.out_width(), tile.y, tile.x,
                    image_of(y, tile.sample, blocks, block, shape.out_height(), shape.out_width()));
    }
}

// Where weights lie: by out channel, in channel and tap.
struct WeightStrides {
  int64_t out;
  int64_t in;
  int64_t first_tap;
  int64_t tap;
};

WeightStrides strides_of(const ConvShape& shape, Weights weights) {
  if (weights == Weights::plain) return {shape.in_channels * kTaps, kTaps, 0, 1};
  return {kTaps, shape.out_channels * kTaps, kTaps - 1, -1};
}

template <typename T>
void transform_filters(const ConvShape& shape, Pairs pairs, Weights kind, const T* weights,
                       T* filters) {
  const Tiling tiling(shape);
  const WeightStrides strides = strides_of(shape, kind);
#pragma omp parallel for collapse(2)
  for (int64_t pair = pairs.begin; pair < pairs.end; ++pair)
    for (int64_t in = 0; in < shape.in_channels; ++in)
      for (int64_t block = 2 * pair; block < 2 * pair + 2; ++block) {
        T taps[kTaps][kLanes] = {};
        for (int64_t lane = 0; lane < kLanes && block * kLanes < shape.out_channels; ++lane)
          for (int64_t tap = 0; tap < kTaps; ++tap)
            taps[tap][lane] = weights[(block * kLanes + lane) * strides.out + in * strides.in +
                                      strides.first_tap + tap * strides.tap];
        Lanes<T> whole[kTaps], half[kSide * 3], row[kSide];
        for (int64_t tap = 0; tap < kTaps; ++tap) whole[tap] = load(taps[tap]);
        for (int64_t j = 0; j < 3; ++j) transform_filter<T, 3, 3>(whole + j, half + j);
        T* to =
            filters + (pair - pairs.begin) * tiling.pair_stride() + in * kPair + block % 2 * kLanes;
        for (int64_t j = 0; j < kSide; ++j) {
          transform_filter<T, 1, 1>(half + j * 3, row);
          for (int64_t k = 0; k < kSide; ++k)
            store(to + (j * kSide + k) * tiling.filter_stride(), row[k]);
        }
      }
}

template <typename T>
void transform_back(const ConvShape& shape, Pairs pairs, const T* filters, T* weights) {
  const Tiling tiling(shape);
#pragma omp parallel for collapse(2)
  for (int64_t pair = pairs.begin; pair < pairs.end; ++pair)
    for (int64_t in = 0; in < shape.in_channels; ++in)
      for (int64_t block = 2 * pair; block < 2 * pair + 2 && block * kLanes < shape.out_channels;
           ++block) {
        const T* from =
            filters + (pair - pairs.begin) * tiling.pair_stride() + in * kPair + block % 2 * kLanes;
        Lanes<T> row[kSide], half[kSide * 3], whole[kTaps];
        for (int64_t j = 0; j < kSide; ++j) {
          for (int64_t k = 0; k < kSide; ++k)
            row[k] = load(from + (j * kSide + k) * tiling.filter_stride());
          gather_filter<T, 1, 1>(row, half + j * 3);
        }
        for (int64_t j = 0; j < 3; ++j) gather_filter<T, 3, 3>(half + j, whole + j);
        T taps[kTaps][kLanes];
        for (int64_t tap = 0; tap < kTaps; ++tap) store(taps[tap], whole[tap]);
        for (int64_t lane = 0; lane < kLanes; ++lane)
          for (int64_t tap = 0; tap < kTaps; ++tap)
            weights[((block * kLanes + lane) * shape.in_channels + in) * kTaps + tap] =
                taps[tap][lane];
      }
}

// A scratch memory's parts.
template <typename T>
struct Scratch {
  Scratch(const Tiling& tiling, T* memory)
      : inputs(memory),
        results(inputs + kPoints * tiling.input_stride()),
        filters(results + kPoints * tiling.result_stride()) {}

  T* inputs;
  T* results;
  T* filters;
};

}  // namespace

bool winograd_serves(const ConvShape& shape) {
  return shape.kernel == 3 && shape.stride == 1 && shape.padding <= 2 &&
         shape.in_channels % kLanes == 0 && shape.out_channels % kLanes == 0;
}

int64_t winograd_tiles(const ConvShape& shape) {
  return Tiling(shape).tiles;
}

bool winograd_holds_filters(const ConvShape& shape) {
  return !Tiling(shape).many;
}

int64_t winograd_filter_count(const ConvShape& shape) {
  const Tiling tiling(shape);
  return tiling.pairs() * tiling.pair_stride();
}

int64_t winograd_scratch_count(const ConvShape& shape) {
  const Tiling tiling(shape);
  const int64_t pairs = tiling.many && tiling.tiles <= tiling.batch ? 1 : tiling.pairs();
  return kPoints * (tiling.input_stride() + tiling.result_stride()) + pairs * tiling.pair_stride();
}

template <typename T>
void winograd_filters(const ConvShape& shape, Weights kind, const T* weights, T* filters) {
  transform_filters(shape, {0, Tiling(shape).pairs()}, kind, weights, filters);
}

template <typename T>
void winograd_convolve(const ConvShape& shape, const T* x, const T* filters, T* y, T* memory) {
  const Tiling tiling(shape);
  const Scratch<T> scratch(tiling, memory);
  for (int64_t first = 0; first < tiling.tiles; first += tiling.batch) {
    transform_inputs(shape, tiling, first, x, scratch.inputs);
    multiply(tiling, {0, tiling.pairs()}, scratch.inputs, filters, scratch.results);
    transform_results(shape, tiling, first, scratch.results, y);
  }
}

template <typename T>
void winograd_convolve(const ConvShape& shape, const T* x, Weights kind, const T* weights, T* y,
                       T* memory) {
  const Tiling tiling(shape);
  const Scratch<T> scratch(tiling, memory);
  for (int64_t first = 0; first < tiling.tiles; first += tiling.batch) {
    transform_inputs(shape, tiling, first, x, scratch.inputs);
    for (Pairs pair = {0, 1}; pair.begin < tiling.pairs(); ++pair.begin, ++pair.end) {
      transform_filters(shape, pair, kind, weights, scratch.filters);
      multiply(tiling, pair, scratch.inputs, scratch.filters, scratch.results);
    }
    transform_results(shape, tiling, first, scratch.results, y);
  }
}

template <typename T>
void winograd_weight_gradient(const ConvShape& shape, const T* x, const T* dy, T* weights,
                              T* memory) {
  const Tiling tiling(shape);
  const Scratch<T> scratch(tiling, memory);
  const int64_t at_a_time = tiling.many && tiling.tiles <= tiling.batch ? 1 : tiling.pairs();
  for (int64_t first = 0; first < tiling.tiles; first += tiling.batch) {
    transform_inputs(shape, tiling, first, x, scratch.inputs);
    transform_gradients(shape, tiling, first, dy, scratch.results);
    const bool last = first + tiling.batch >= tiling.tiles;
    for (int64_t begin = 0; begin < tiling.pairs(); begin += at_a_time) {
      const Pairs pairs = {begin, begin + at_a_time};
      add_products(first == 0, tiling, pairs, scratch.inputs, scratch.results, scratch.filters);
      if (last) transform_back(shape, pairs, scratch.filters, weights);
    }
  }
}

#define LOCKSTEP_FOR(T)                                                                   \
  template void winograd_filters(const ConvShape&, Weights, const T*, T*);                \
  template void winograd_convolve(const ConvShape&, const T*, const T*, T*, T*);          \
  template void winograd_convolve(const ConvShape&, const T*, Weights, const T*, T*, T*); \
  template void winograd_weight_gradient(const ConvShape&, const T*, const T*, T*, T*)
LOCKSTEP_FOR(float);
LOCKSTEP_FOR(double);
#undef LOCKSTEP_FOR

}  // namespace lockstep::kernels
