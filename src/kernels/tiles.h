#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// Winograd's transforms, in the words of winograd.cpp. They are compiled for AVX2 and for AVX-512,
/// with the same bits.

inline constexpr int64_t kTile = 4;
inline constexpr int64_t kSide = 6;  ///< of a transformed tile
inline constexpr int64_t kPoints = kSide * kSide;
inline constexpr int64_t kTaps = 9;

/// Some tiles of the images of one block of channels.
struct TileGrid {
  int64_t height;        ///< of an image
  int64_t width;         ///< of an image
  int64_t image_stride;  ///< from a sample's image to the next one's, in numbers
  int64_t rows;          ///< of an image's tiles
  int64_t columns;       ///< of an image's tiles
  int64_t padding;       ///< pixels by which tiles begin before the image
  int64_t first;         ///< tile
  int64_t tiles;         ///< from the first on
  int64_t batch;         ///< the same, with those behind that are none
  int64_t point_stride;  ///< from a tile's point to its next one, in numbers
};

/// Filters of a pair of blocks of out channels, for some in channels.
struct TapGrid {
  int64_t ins;
  int64_t tap_stride;    ///< from a filter's tap to its next one, in numbers
  int64_t point_stride;  ///< the same for points
};

template <typename T>
struct TileTransforms {
  /// points = transform of images: [point][tile][8]. Those of tiles that are none are zeros.
  void (*inputs)(const TileGrid&, const T* images, T* points);
  /// The same for gradients of results.
  void (*gradients)(const TileGrid&, const T* images, T* points);
  /// images = transform of points.
  void (*results)(const TileGrid&, const T* points, T* images);
  /// points = transform of taps: [point][in][16] and [in][tap][16].
  void (*filters)(const TapGrid&, const T* taps, T* points);
  /// taps = transform of points.
  void (*filters_back)(const TapGrid&, const T* points, T* taps);
};

/// Those for this processor.
template <typename T>
const TileTransforms<T>& tile_transforms();
template <>
const TileTransforms<float>& tile_transforms();
template <>
const TileTransforms<double>& tile_transforms();

namespace avx2 {
extern const TileTransforms<float> kTileTransforms;
extern const TileTransforms<double> kTileTransformsOfDoubles;
}  // namespace avx2
namespace avx512 {
extern const TileTransforms<float> kTileTransforms;
}  // namespace avx512

}  // namespace lockstep::kernels
