#pragma once

#include "kernels/pooling.h"
#include "kernels/register.h"

/// The loops behind pooling.h, for the processor that the including file is compiled for: as many
/// results of a row at a time as pixels are in a register.
namespace lockstep::kernels {
namespace {

constexpr int kNone = 4;

// The result of comparing registers: integers of the same width.
template <typename V>
struct FlagsOf {
  using Type = decltype(V{} > V{});
};

// A byte for each number of a register.
template <int64_t kBytes>
struct BytesOf {
  using Type [[gnu::vector_size(kBytes), gnu::may_alias, gnu::aligned(1)]] = uint8_t;
};
template <typename T, typename V>
using Bytes = typename BytesOf<static_cast<int64_t>(sizeof(V) / sizeof(T))>::Type;

// Calls body(number of the first, type) for the results of a row, as many as a register holds at a
// time.
template <typename T, typename Body>
[[gnu::always_inline]] inline void for_results(int64_t count, Body body) {
  int64_t i = 0;
  for (; i + kPixelsAtOnce<T> <= count; i += kPixelsAtOnce<T>) body(i, Register<T>{});
  if constexpr (kPixelsAtOnce<T> > 1)
    if (i < count) body(i, Lanes<T>{});
}

template <typename T>
void max_relu(const PoolShape& shape, const T* x, const T* bias, T* y, uint8_t* chosen) {
  const int64_t rows = shape.height / 2, columns = shape.width / 2;
#pragma omp parallel for
  for (int64_t image = 0; image < shape.images; ++image) {
    const T zeros[kLanes] = {};
    const T* const shift = bias == nullptr ? zeros : bias + image % shape.blocks * kLanes;
    for (int64_t row = 0; row < rows; ++row) {
      const T* const upper = x + (image * shape.height + 2 * row) * shape.width * kLanes;
      const T* const lower = upper + shape.width * kLanes;
      const int64_t begin = (image * rows + row) * columns * kLanes;
      for_results<T>(columns, [&]<typename V>(int64_t column, V) __attribute__((always_inline)) {
        using Flags = typename FlagsOf<V>::Type;
        const int64_t left = 2 * column * kLanes, right = left + kLanes;
        const auto pixel = [&](const T* from) __attribute__((always_inline)) {
          return load_apart(from, from + 2 * kLanes, V{});
        };
        V most = pixel(upper + left);
        Flags which = {};
        const auto take = [&](V value, int number) __attribute__((always_inline)) {
          const Flags larger = (value > most) | (value != value);  // as LibTorch: NaN stays
          most = larger ? value : most;
          which = larger ? Flags{} + number : which;
        };
        take(pixel(upper + right), 1);
        take(pixel(lower + left), 2);
        take(pixel(lower + right), 3);
        most += load_apart(shift, shift, V{});
        const Flags inactive = most <= 0;
        const int64_t at = begin + column * kLanes;
        store_register(y + at, inactive ? V{} : most);
        which = inactive ? Flags{} + kNone : which;
        *reinterpret_cast<Bytes<T, V>*>(chosen + at) = __builtin_convertvector(which, Bytes<T, V>);
      });
    }
  }
}

template <typename T>
void max_relu_gradient(const PoolShape& shape, const T* dy, const uint8_t* chosen, T* dx,
                       T* dbias) {
  const int64_t samples = shape.images / shape.blocks;
  const int64_t rows = shape.height / 2, columns = shape.width / 2;
#pragma omp parallel for
  for (int64_t block = 0; block < shape.blocks; ++block) {
    Lanes<double> total = {};
    for (int64_t sample = 0; sample < samples; ++sample) {
      const int64_t image = sample * shape.blocks + block;
      T* to = dx + image * shape.height * shape.width * kLanes;
      const int64_t row_stride = shape.width * kLanes;
      // Of even results of a row, and of odd ones.
      Lanes<T> sums[2] = {};
      for (int64_t row = 0; row < rows; ++row, to += 2 * row_stride) {
        const int64_t begin = (image * rows + row) * columns * kLanes;
        for_results<T>(columns, [&]<typename V>(int64_t column, V) __attribute__((always_inline)) {
          using Flags = typename FlagsOf<V>::Type;
          const int64_t at = begin + column * kLanes;
          const V g = load_register(dy + at, V{});
          const Flags which =
              __builtin_convertvector(*reinterpret_cast<const Bytes<T, V>*>(chosen + at), Flags);
          const V let_through = which == kNone ? V{} : g;
          add_by_parity<T>(sums, column, let_through);
#pragma GCC unroll 4
          for (int pixel = 0; pixel < 4; ++pixel) {
            T* const pixel_to = to + pixel / 2 * row_stride + (2 * column + pixel % 2) * kLanes;
            store_apart(pixel_to, pixel_to + 2 * kLanes, which == pixel ? g : V{});
          }
        });
        if (shape.width % 2 != 0)
          for (int64_t i = 1; i <= 2; ++i) store(to + (i * shape.width - 1) * kLanes, Lanes<T>{});
      }
      if (shape.height % 2 != 0)
        for (int64_t column = 0; column < shape.width; ++column)
          store(to + column * kLanes, Lanes<T>{});
      total += __builtin_convertvector(sums[0] + sums[1], Lanes<double>);
    }
    if (dbias != nullptr) store(dbias + block * kLanes, __builtin_convertvector(total, Lanes<T>));
  }
}

template <typename T>
void mean(int64_t images, int64_t pixels, const T* x, T* y) {
#pragma omp parallel for
  for (int64_t image = 0; image < images; ++image) {
    Lanes<T> sum = {};
    for (int64_t pixel = 0; pixel < pixels; ++pixel)
      sum += load(x + (image * pixels + pixel) * kLanes);
    store(y + image * kLanes, sum / static_cast<T>(pixels));
  }
}

template <typename T>
void mean_gradient(int64_t images, int64_t pixels, const T* dy, T* dx) {
#pragma omp parallel for
  for (int64_t image = 0; image < images; ++image) {
    const Lanes<T> share = load(dy + image * kLanes) / static_cast<T>(pixels);
    for (int64_t pixel = 0; pixel < pixels; ++pixel)
      store(dx + (image * pixels + pixel) * kLanes, share);
  }
}

}  // namespace
}  // namespace lockstep::kernels
