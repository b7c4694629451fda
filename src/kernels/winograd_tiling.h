#pragma once

#include "kernels/conv_shape.h"
#include "kernels/lanes.h"
#include "kernels/tiles.h"

/// How images are divided into tiles, in the words of winograd.cpp.
namespace lockstep::kernels {
namespace {

constexpr int64_t kRows = 6;  ///< a batch's tiles are a multiple of it
constexpr int64_t kApart = 3 * kLanes;
constexpr int64_t kFew = 32;                     ///< in and out channels
constexpr int64_t kMostTilesOfFew = 16 * kRows;  ///< of a batch
constexpr int64_t kMostTiles = 8 * kRows;
constexpr int64_t kMostTilesOfMany = 32 * kRows;
constexpr int64_t kMany = int64_t{128} * 128;  ///< in times out channels, above it

constexpr int64_t at_most(int64_t limit, int64_t value) {
  return value < limit ? value : limit;
}
constexpr int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

constexpr bool has_many(const ConvShape& shape) {
  return shape.in_channels * shape.out_channels > kMany;
}

// A batch's inputs and results stay in a core's own cache; so do filters, unless they are many.
constexpr int64_t most_tiles(const ConvShape& shape) {
  if (has_many(shape)) return kMostTilesOfMany;
  return shape.in_channels + shape.out_channels <= kFew ? kMostTilesOfFew : kMostTiles;
}

// The positions of tiles and the sizes of the matrices.
struct Tiling {
  explicit Tiling(const ConvShape& shape)
      : rows((shape.out_height() + kTile - 1) / kTile),
        columns((shape.out_width() + kTile - 1) / kTile),
        tiles(shape.samples * rows * columns),
        in_blocks(shape.in_channels / kLanes),
        out_blocks(round_up(shape.out_channels, kPair) / kLanes),
        many(has_many(shape)),
        batch(round_up(at_most(most_tiles(shape), tiles), kRows)) {}

  int64_t rows;
  int64_t columns;
  int64_t tiles;
  int64_t in_blocks;
  int64_t out_blocks;  ///< in pairs: the last one may have no channels
  bool many;
  int64_t batch;  ///< tiles, the last ones may be none

  // A point's matrix is padded: 36 addresses that differ by a power of two would map to the same
  // cache set.
  int64_t input_stride() const { return in_blocks * batch * kLanes + kApart; }
  int64_t result_stride() const { return out_blocks * batch * kLanes + kApart; }
  int64_t filter_stride() const { return in_blocks * kLanes * kPair + kApart; }
  int64_t pair_stride() const { return kPoints * filter_stride(); }
  int64_t pairs() const { return out_blocks / 2; }
};

// Some of the pairs of blocks of out channels.
struct Pairs {
  int64_t begin;
  int64_t end;
};

}  // namespace
}  // namespace lockstep::kernels
