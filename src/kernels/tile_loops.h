#pragma once

#include "kernels/register.h"
#include "kernels/tiles.h"
#include "kernels/winograd_transforms.h"

/// The loops behind tiles.h, for the processor that the including file is compiled for: as many
/// tiles at a time as pixels are in a register. They use nothing of the standard library, which the
/// linker might then use for other processors.
namespace lockstep::kernels {
namespace {

[[gnu::always_inline]] inline int64_t clamped(int64_t value, int64_t most) {
  return value < 0 ? 0 : value > most ? most : value;
}

// Which of a tile's pixels, and of those of the tile beside it, lie in the image: all bits or none.
template <typename T, int64_t kTiles>
[[gnu::always_inline]] inline auto mask_of(bool first, bool second) {
  using Half = decltype(Lanes<T>{} > Lanes<T>{});
  const Half one = Half{} - first;
  if constexpr (kTiles == 1)
    return one;
  else
    return __builtin_shufflevector(one, Half{} - second, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
                                   13, 14, 15);
}

// Where a tile begins: its image, and a pixel that may lie outside.
struct Place {
  int64_t image;  ///< in numbers
  int64_t y;
  int64_t x;
};

// The places of a grid's tiles, one after another, from some tile on.
class Places {
 public:
  Places(const TileGrid& grid, int64_t tile)
      : grid_(grid),
        image_(tile / (grid.rows * grid.columns) * grid.image_stride),
        row_(tile % (grid.rows * grid.columns) / grid.columns),
        column_(tile % grid.columns) {}

  [[gnu::always_inline]] Place next() {
    const Place place = {image_, row_ * kTile - grid_.padding, column_ * kTile - grid_.padding};
    if (++column_ == grid_.columns) {
      column_ = 0;
      if (++row_ == grid_.rows) {
        row_ = 0;
        image_ += grid_.image_stride;
      }
    }
    return place;
  }

 private:
  const TileGrid& grid_;
  int64_t image_;
  int64_t row_;
  int64_t column_;
};

// How far ahead images are read into the cache: processors do not foresee the order of tiles.
constexpr int64_t kTilesAhead = 16;

// Reads pixels into the cache that lie in a tile and in no other one, of so many tiles.
template <typename T>
[[gnu::always_inline]] inline void fetch(const TileGrid& grid, const T* images, int64_t tiles,
                                         Places& places) {
  for (int64_t i = 0; i < tiles; ++i) {
    const Place place = places.next();
    const T* from = images + place.image +
                    ((place.y + grid.padding) * grid.width + place.x + grid.padding) * kLanes;
#pragma GCC unroll 4
    for (int64_t row = 0; row < kTile; ++row, from += grid.width * kLanes) {
      __builtin_prefetch(from);
      __builtin_prefetch(from + 2 * kLanes);
    }
  }
}

// The pixels of a tile that lies in the image, and of those right of it.
template <typename T, int64_t kTiles>
struct Inside {
  [[gnu::always_inline]] auto operator()(int64_t i, int64_t j) const {
    const T* from = corner + (i * width + j) * kLanes;
    return load_apart(from, from + kTile * kLanes, Register<T, kTiles>{});
  }

  const T* corner;
  int64_t width;
};

// The same, with zeros where tiles lie outside of the image.
template <typename T, int64_t kTiles, int64_t kSize>
struct AtEdge {
  using V = Register<T, kTiles>;
  using Bits = decltype(V{} > V{});

  [[gnu::always_inline]] AtEdge(const TileGrid& grid, const T* image, const Place& place) {
#pragma GCC unroll 6
    for (int64_t i = 0; i < kSize; ++i) {
      const int64_t y = clamped(place.y + i, grid.height - 1);
      row[i] = image + y * grid.width * kLanes;
      row_inside[i] = Bits{} - (y == place.y + i);
    }
#pragma GCC unroll 6
    for (int64_t j = 0; j < kSize; ++j) {
      const int64_t x = place.x + j, beside = x + kTile;
      first[j] = clamped(x, grid.width - 1) * kLanes;
      second[j] = clamped(beside, grid.width - 1) * kLanes;
      column_inside[j] = mask_of<T, kTiles>(first[j] == x * kLanes, second[j] == beside * kLanes);
    }
  }
  [[gnu::always_inline]] V operator()(int64_t i, int64_t j) const {
    const V pixel = load_apart(row[i] + first[j], row[i] + second[j], V{});
    return reinterpret_cast<V>(reinterpret_cast<Bits>(pixel) & row_inside[i] & column_inside[j]);
  }

  const T* row[kSize];
  int64_t first[kSize];  ///< column, in numbers
  int64_t second[kSize];
  Bits row_inside[kSize];
  Bits column_inside[kSize];
};

// Calls use(pixels) for a tile and those right of it; pixels(i, j) is one in row i, column j.
template <int64_t kTiles, int64_t kSize, typename T, typename Use>
[[gnu::always_inline]] inline void use_beside(const TileGrid& grid, const T* images,
                                              const Place& place, Use use) {
  constexpr int64_t kSpan = kSize + (kTiles - 1) * kTile;
  const T* const image = images + place.image;
  if (place.y >= 0 && place.y + kSize <= grid.height && place.x >= 0 &&
      place.x + kSpan <= grid.width)
    use(Inside<T, kTiles>{image + (place.y * grid.width + place.x) * kLanes, grid.width});
  else
    use(AtEdge<T, kTiles, kSize>(grid, image, place));
}

// The same for the next tiles together, of which `left` are there.
template <int64_t kSize, typename T, typename Use>
[[gnu::always_inline]] inline void use_next(const TileGrid& grid, const T* images, int64_t left,
                                            Places& places, Use use) {
  const Place first = places.next();
  if constexpr (kPixelsAtOnce<T> == 1) {
    use_beside<1, kSize>(grid, images, first, use);
  } else {
    const Place second = left > 1 ? places.next() : first;
    if (left > 1 && first.image == second.image && first.y == second.y)
      return use_beside<2, kSize>(grid, images, first, use);
    T apart[2][kSize * kSize * kLanes] = {};
    for (int64_t tile = 0; tile < (left > 1 ? 2 : 1); ++tile) {
      const AtEdge<T, 1, kSize> pixels(grid, images + (tile == 0 ? first : second).image,
                                       tile == 0 ? first : second);
      for (int64_t i = 0; i < kSize; ++i)
        for (int64_t j = 0; j < kSize; ++j)
          store(apart[tile] + (i * kSize + j) * kLanes, pixels(i, j));
    }
    use([&](int64_t i, int64_t j) __attribute__((always_inline)) {
      const int64_t at = (i * kSize + j) * kLanes;
      return load_apart(apart[0] + at, apart[1] + at, Register<T>{});
    });
  }
}

template <int64_t kNumber, typename V, typename T>
[[gnu::always_inline]] inline void write_tile(const TileGrid& grid, const Place& place,
                                              const V* pixels, T* images) {
  const int64_t rows = grid.height - place.y < kTile ? grid.height - place.y : kTile;
  const int64_t columns = grid.width - place.x < kTile ? grid.width - place.x : kTile;
  T* to = images + place.image + (place.y * grid.width + place.x) * kLanes;
  if (rows == kTile && columns == kTile) {
    for (int64_t i = 0; i < kTile; ++i, to += grid.width * kLanes)
#pragma GCC unroll 4
      for (int64_t j = 0; j < kTile; ++j)
        store_one<kNumber>(to + j * kLanes, pixels[i * kTile + j]);
    return;
  }
  for (int64_t i = 0; i < rows; ++i, to += grid.width * kLanes)
    for (int64_t j = 0; j < columns; ++j)
      store_one<kNumber>(to + j * kLanes, pixels[i * kTile + j]);
}

template <typename T>
void clear_points(const TileGrid& grid, int64_t from, T* points) {
  for (int64_t i = from; i < grid.batch; ++i)
    for (int64_t point = 0; point < kPoints; ++point)
      store(points + point * grid.point_stride + i * kLanes, Lanes<T>{});
}

struct OfInputs {
  static constexpr int64_t kSize = kSide;

  template <int64_t kOutStride, typename V>
  [[gnu::always_inline]] static void transform(const V* from, V* to) {
    transform_input<1, kOutStride>(from, to);
  }
};
struct OfGradients {
  static constexpr int64_t kSize = kTile;

  template <int64_t kOutStride, typename V>
  [[gnu::always_inline]] static void transform(const V* from, V* to) {
    spread_gradient<1, kOutStride>(from, to);
  }
};

// `Of` has the size of a tile in images, and the transform of a column or row.
template <typename Of, typename T>
void transform_images(const TileGrid& grid, const T* images, T* points) {
  using V = Register<T>;
  constexpr int64_t kSize = Of::kSize;
  Places places(grid, grid.first), ahead(grid, grid.first + kTilesAhead);
  for (int64_t i = 0; i < grid.tiles; i += kPixelsAtOnce<T>) {
    fetch(grid, images, kPixelsAtOnce<T>, ahead);
    use_next<kSize>(grid, images, grid.tiles - i, places,
                    [&](const auto& pixels) __attribute__((always_inline)) {
                      V half[kSide * kSize];
#pragma GCC unroll 6
                      for (int64_t j = 0; j < kSize; ++j) {
                        V column[kSize];
#pragma GCC unroll 6
                        for (int64_t k = 0; k < kSize; ++k) column[k] = pixels(k, j);
                        Of::template transform<kSize>(column, half + j);
                      }
                      T* to = points + i * kLanes;
#pragma GCC unroll 6
                      for (int64_t j = 0; j < kSide; ++j) {
                        V row[kSide];
                        Of::template transform<1>(half + j * kSize, row);
#pragma GCC unroll 6
                        for (int64_t k = 0; k < kSide; ++k, to += grid.point_stride)
                          store_register(to, row[k]);
                      }
                    });
  }
  clear_points(grid, grid.tiles + grid.tiles % kPixelsAtOnce<T>, points);
}

template <typename T>
void transform_results(const TileGrid& grid, const T* points, T* images) {
  using V = Register<T>;
  Places places(grid, grid.first);
  for (int64_t i = 0; i < grid.tiles; i += kPixelsAtOnce<T>) {
    V a[kSide * kTile], b[kTile * kTile];
    const T* from = points + i * kLanes;
#pragma GCC unroll 6
    for (int64_t j = 0; j < kSide; ++j) {
      V row[kSide];
#pragma GCC unroll 6
      for (int64_t k = 0; k < kSide; ++k, from += grid.point_stride)
        row[k] = load_register(from, V{});
      transform_result<1, 1>(row, a + j * kTile);
    }
#pragma GCC unroll 4
    for (int64_t j = 0; j < kTile; ++j) transform_result<kTile, kTile>(a + j, b + j);
    write_tile<0>(grid, places.next(), b, images);
    if constexpr (kPixelsAtOnce<T> == 2)
      if (i + 1 < grid.tiles) write_tile<1>(grid, places.next(), b, images);
  }
}

template <typename T>
void transform_filters(const TapGrid& grid, const T* taps, T* points) {
  using V = Register<T>;
  for (int64_t in = 0; in < grid.ins; ++in)
    for (int64_t lane = 0; lane < kPair; lane += kPixelsAtOnce<T> * kLanes) {
      const T* from = taps + in * kTaps * kPair + lane;
      V whole[kTaps], half[kSide * 3];
#pragma GCC unroll 9
      for (int64_t tap = 0; tap < kTaps; ++tap)
        whole[tap] = load_register(from + tap * grid.tap_stride, V{});
#pragma GCC unroll 3
      for (int64_t j = 0; j < 3; ++j) transform_filter<T, 3, 3>(whole + j, half + j);
      T* to = points + in * kPair + lane;
#pragma GCC unroll 6
      for (int64_t j = 0; j < kSide; ++j) {
        V row[kSide];
        transform_filter<T, 1, 1>(half + j * 3, row);
#pragma GCC unroll 6
        for (int64_t k = 0; k < kSide; ++k, to += grid.point_stride) store_register(to, row[k]);
      }
    }
}

template <typename T>
void transform_back(const TapGrid& grid, const T* points, T* taps) {
  using V = Register<T>;
  for (int64_t in = 0; in < grid.ins; ++in)
    for (int64_t lane = 0; lane < kPair; lane += kPixelsAtOnce<T> * kLanes) {
      const T* from = points + in * kPair + lane;
      V row[kSide], half[kSide * 3], whole[kTaps];
#pragma GCC unroll 6
      for (int64_t j = 0; j < kSide; ++j) {
#pragma GCC unroll 6
        for (int64_t k = 0; k < kSide; ++k, from += grid.point_stride)
          row[k] = load_register(from, V{});
        gather_filter<T, 1, 1>(row, half + j * 3);
      }
#pragma GCC unroll 3
      for (int64_t j = 0; j < 3; ++j) gather_filter<T, 3, 3>(half + j, whole + j);
      T* to = taps + in * kTaps * kPair + lane;
#pragma GCC unroll 9
      for (int64_t tap = 0; tap < kTaps; ++tap)
        store_register(to + tap * grid.tap_stride, whole[tap]);
    }
}

}  // namespace
}  // namespace lockstep::kernels
