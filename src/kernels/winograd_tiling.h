#pragma once

#include "kernels/conv_shape.h"
#include "kernels/pair.h"

/// How images are divided into tiles, in the words of winograd.cpp. Without external linkage: the
/// linker must not use code compiled for AVX2 in a file that is not.
namespace lockstep::kernels {
namespace {

constexpr int64_t kTile = 4;
constexpr int64_t kSide = 6;  ///< of a transformed tile
constexpr int64_t kPoints = kSide * kSide;
constexpr int64_t kTaps = 9;
constexpr int64_t kRows = 6;  ///< a batch's tiles are a multiple of it
constexpr int64_t kApart = 3 * kLanes;
constexpr int64_t kMostTiles = 16 * kRows;  ///< of a batch
constexpr int64_t kMostTilesOfMany = 32 * kRows;
constexpr int64_t kMany = int64_t{128} * 128;  ///< in times out channels, above it

constexpr int64_t at_most(int64_t limit, int64_t value) {
  return value < limit ? value : limit;
}
constexpr int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// The positions of tiles and the sizes of the matrices.
struct Tiling {
  explicit Tiling(const ConvShape& shape)
      : rows((shape.out_height() + kTile - 1) / kTile),
        columns((shape.out_width() + kTile - 1) / kTile),
        tiles(shape.samples * rows * columns),
        in_blocks(shape.in_channels / kLanes),
        out_blocks(round_up(shape.out_channels, kPair) / kLanes),
        many(shape.in_channels * shape.out_channels > kMany),
        batch(round_up(at_most(many ? kMostTilesOfMany : kMostTiles, tiles), kRows)) {}

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

struct Tile {
  int64_t sample;
  int64_t y;  ///< of the result's first pixel
  int64_t x;
};

Tile tile_at(const Tiling& tiling, int64_t index) {
  const int64_t in_sample = index % (tiling.rows * tiling.columns);
  return {index / (tiling.rows * tiling.columns), in_sample / tiling.columns * kTile,
          in_sample % tiling.columns * kTile};
}

// A tile's pixels, with zeros where it reaches beyond the image.
template <int64_t kSize, typename T>
[[gnu::always_inline]] inline void read_tile(const T* image, int64_t height, int64_t width,
                                             int64_t y, int64_t x, Lanes<T>* tile) {
  if (y >= 0 && x >= 0 && y + kSize <= height && x + kSize <= width) {
    const T* from = image + (y * width + x) * kLanes;
    for (int64_t i = 0; i < kSize; ++i, from += width * kLanes)
      for (int64_t j = 0; j < kSize; ++j) tile[i * kSize + j] = load(from + j * kLanes);
    return;
  }
  for (int64_t i = 0; i < kSize; ++i)
    for (int64_t j = 0; j < kSize; ++j) {
      const bool inside = y + i >= 0 && y + i < height && x + j >= 0 && x + j < width;
      tile[i * kSize + j] = inside ? load(image + ((y + i) * width + x + j) * kLanes) : Lanes<T>{};
    }
}

template <typename T>
[[gnu::always_inline]] inline void write_tile(const Lanes<T>* tile, int64_t height, int64_t width,
                                              int64_t y, int64_t x, T* image) {
  const int64_t rows = height - y < kTile ? height - y : kTile;
  const int64_t columns = width - x < kTile ? width - x : kTile;
  T* to = image + (y * width + x) * kLanes;
  if (rows == kTile && columns == kTile) {
    for (int64_t i = 0; i < kTile; ++i, to += width * kLanes)
      for (int64_t j = 0; j < kTile; ++j) store(to + j * kLanes, tile[i * kTile + j]);
    return;
  }
  for (int64_t i = 0; i < rows; ++i, to += width * kLanes)
    for (int64_t j = 0; j < columns; ++j) store(to + j * kLanes, tile[i * kTile + j]);
}

// The image of one block of channels of one sample.
template <typename T>
T* image_of(T* base, int64_t sample, int64_t blocks, int64_t block, int64_t height, int64_t width) {
  return base + (sample * blocks + block) * height * width * kLanes;
}

// Some of the pairs of blocks of out channels.
struct Pairs {
  int64_t begin;
  int64_t end;
};

}  // namespace
}  // namespace lockstep::kernels
