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
#include "kernels/products.h"
#include "kernels/tiles.h"
#include "kernels/winograd_products.h"
#include "kernels/winograd_tiling.h"

namespace lockstep::kernels {
namespace {

// The tiles of a block of images, of a batch that begins with tile `first`.
TileGrid grid_of(const Tiling& tiling, int64_t first, int64_t blocks, int64_t height, int64_t width,
                 int64_t padding, int64_t point_stride) {
  return {.height = height,
          .width = width,
          .image_stride = blocks * height * width * kLanes,
          .rows = tiling.rows,
          .columns = tiling.columns,
          .padding = padding,
          .first = first,
          .tiles = at_most(tiling.batch, tiling.tiles - first),
          .batch = tiling.batch,
          .point_stride = point_stride};
}
TileGrid inputs_of(const ConvShape& s, const Tiling& tiling, int64_t first) {
  return grid_of(tiling, first, tiling.in_blocks, s.in_height, s.in_width, s.padding,
                 tiling.input_stride());
}
TileGrid results_of(const ConvShape& s, const Tiling& tiling, int64_t first) {
  return grid_of(tiling, first, s.out_channels / kLanes, s.out_height(), s.out_width(), 0,
                 tiling.result_stride());
}

template <typename T>
void transform_inputs(const ConvShape& shape, const Tiling& tiling, int64_t first, const T* x,
                      T* inputs) {
  const TileGrid grid = inputs_of(shape, tiling, first);
  const int64_t pixels = shape.in_height * shape.in_width;
#pragma omp parallel for
  for (int64_t block = 0; block < tiling.in_blocks; ++block)
    tile_transforms<T>().inputs(grid, x + block * pixels * kLanes,
                                inputs + block * tiling.batch * kLanes);
}

template <typename T>
void transform_gradients(const ConvShape& shape, const Tiling& tiling, int64_t first, const T* dy,
                         T* results) {
  const TileGrid grid = results_of(shape, tiling, first);
  TileGrid none = grid;
  none.tiles = 0;
  const int64_t pixels = shape.out_height() * shape.out_width();
#pragma omp parallel for
  for (int64_t block = 0; block < tiling.out_blocks; ++block)
    tile_transforms<T>().gradients(block * kLanes < shape.out_channels ? grid : none,
                                   dy + block * pixels * kLanes,
                                   results + block * tiling.batch * kLanes);
}

template <typename T>
void transform_results(const ConvShape& shape, const Tiling& tiling, int64_t first,
                       const T* results, T* y) {
  const TileGrid grid = results_of(shape, tiling, first);
  const int64_t pixels = shape.out_height() * shape.out_width();
#pragma omp parallel for
  for (int64_t block = 0; block < shape.out_channels / kLanes; ++block)
    tile_transforms<T>().results(grid, results + block * tiling.batch * kLanes,
                                 y + block * pixels * kLanes);
}

// Weights of eight in channels and a pair of blocks of out channels, and the same as
// [in][tap][16]. Of a pair whose second block has no channels, that block's are zeros.
template <typename T>
struct Square {
  Square(const ConvShape& shape, Weights kind, int64_t pair, int64_t first_in)
      : shape(shape), kind(kind), first_out(pair * kPair), first_in(first_in) {}

  bool is_whole() const { return first_out + kPair <= shape.out_channels; }

  /// Of the taps that LibTorch's weights have in the order of a convolution, or reversed.
  T* first_tap() { return kind == Weights::plain ? taps : taps + (kTaps - 1) * kPair; }
  int64_t tap_stride() const { return kind == Weights::plain ? kPair : -kPair; }

  void read(const T* weights) {
    if (kind == Weights::plain) {
      const int64_t stride = shape.in_channels * kTaps;
      read(weights + first_out * stride + first_in * kTaps, {kLanes * kTaps, stride, kPair}, taps);
      return;
    }
    for (int64_t in = 0; in < kLanes; ++in)
      read(weights + ((first_in + in) * shape.out_channels + first_out) * kTaps,
           {kTaps, kTaps, kPair}, taps + in * kTaps * kPair);
  }
  void write(T* weights) const {
    const int64_t stride = shape.in_channels * kTaps;
    T* const to = weights + first_out * stride + first_in * kTaps;
    if (is_whole()) return products<T>().transpose_back({kLanes * kTaps, stride, kPair}, taps, to);
    for (int64_t lane = 0; lane < kLanes; ++lane)
      for (int64_t i = 0; i < kLanes * kTaps; ++i) to[lane * stride + i] = taps[i * kPair + lane];
  }

  const ConvShape& shape;
  const Weights kind;
  const int64_t first_out;
  const int64_t first_in;
  T taps[kLanes * kTaps * kPair];

 private:
  void read(const T* from, const Transposition& t, T* to) {
    if (is_whole()) return products<T>().transpose(t, from, to);
    for (int64_t k = 0; k < t.count; ++k)
      for (int64_t lane = 0; lane < kPair; ++lane)
        to[k * kPair + lane] = lane < kLanes ? from[lane * t.stride + k] : T(0);
  }
};

template <typename T>
void transform_filters(const ConvShape& shape, Pairs pairs, Weights kind, const T* weights,
                       T* filters) {
  const Tiling tiling(shape);
#pragma omp parallel for collapse(2)
  for (int64_t pair = pairs.begin; pair < pairs.end; ++pair)
    for (int64_t in = 0; in < shape.in_channels; in += kLanes) {
      Square<T> square(shape, kind, pair, in);
      square.read(weights);
      tile_transforms<T>().filters(
          {kLanes, square.tap_stride(), tiling.filter_stride()}, square.first_tap(),
          filters + (pair - pairs.begin) * tiling.pair_stride() + in * kPair);
    }
}

template <typename T>
void transform_back(const ConvShape& shape, Pairs pairs, const T* filters, T* weights) {
  const Tiling tiling(shape);
#pragma omp parallel for collapse(2)
  for (int64_t pair = pairs.begin; pair < pairs.end; ++pair)
    for (int64_t in = 0; in < shape.in_channels; in += kLanes) {
      Square<T> square(shape, Weights::plain, pair, in);
      tile_transforms<T>().filters_back(
          {kLanes, kPair, tiling.filter_stride()},
          filters + (pair - pairs.begin) * tiling.pair_stride() + in * kPair, square.taps);
      square.write(weights);
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
