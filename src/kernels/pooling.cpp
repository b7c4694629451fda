#include "kernels/pooling.h"

#include "kernels/lanes.h"

namespace lockstep::kernels {
namespace {

using Bytes [[gnu::vector_size(kLanes), gnu::may_alias, gnu::aligned(1)]] = uint8_t;

// The result of comparing Lanes: integers of the same width.
template <typename T>
using Flags = decltype(Lanes<T>{} > Lanes<T>{});

constexpr int kNone = 4;

}  // namespace

template <typename T>
void max_pool_relu(const PoolShape& shape, const T* x, const T* bias, T* y, uint8_t* chosen) {
  const int64_t out_pixels = shape.out_height() * shape.out_width();
#pragma omp parallel for
  for (int64_t image = 0; image < shape.images; ++image) {
    const Lanes<T> shift =
        bias == nullptr ? Lanes<T>{} : load(bias + image % shape.blocks * kLanes);
    for (int64_t row = 0; row < shape.out_height(); ++row) {
      const T* upper = x + (image * shape.height + 2 * row) * shape.width * kLanes;
      const T* lower = upper + shape.width * kLanes;
      int64_t at = (image * out_pixels + row * shape.out_width()) * kLanes;
      for (int64_t column = 0; column < shape.out_width(); ++column, at += kLanes) {
        const int64_t left = 2 * column * kLanes, right = left + kLanes;
        Lanes<T> most = load(upper + left);
        Flags<T> which = {};
        const auto take = [&](Lanes<T> value, int number) __attribute__((always_inline)) {
          const Flags<T> larger = (value > most) | (value != value);  // as LibTorch: NaN stays
          most = larger ? value : most;
          which = larger ? Flags<T>{} + number : which;
        };
        take(load(upper + right), 1);
        take(load(lower + left), 2);
        take(load(lower + right), 3);
        most += shift;
        const Flags<T> inactive = most <= 0;
        store(y + at, inactive ? Lanes<T>{} : most);
        which = inactive ? Flags<T>{} + kNone : which;
        *reinterpret_cast<Bytes*>(chosen + at) = __builtin_convertvector(which, Bytes);
      }
    }
  }
}

template <typename T>
void max_pool_relu_gradient(const PoolShape& shape, const T* dy, const uint8_t* chosen, T* dx,
                            T* dbias) {
  const int64_t samples = shape.images / shape.blocks;
  const int64_t out_pixels = shape.out_height() * shape.out_width();
#pragma omp parallel for
  for (int64_t block = 0; block < shape.blocks; ++block) {
    Lanes<double> total = {};
    for (int64_t sample = 0; sample < samples; ++sample) {
      const int64_t image = sample * shape.blocks + block;
      T* const to = dx + image * shape.height * shape.width * kLanes;
      Lanes<T> sum = {};
      for (int64_t row = 0; row < shape.height; ++row)
        for (int64_t column = 0; column < shape.width; ++column) {
          const bool pooled = row / 2 < shape.out_height() && column / 2 < shape.out_width();
          Lanes<T> value = {};
          if (pooled) {
            const int64_t at =
                (image * out_pixels + row / 2 * shape.out_width() + column / 2) * kLanes;
            const Flags<T> which =
                __builtin_convertvector(*reinterpret_cast<const Bytes*>(chosen + at), Flags<T>);
            value =
                which == static_cast<int>(row % 2 * 2 + column % 2) ? load(dy + at) : Lanes<T>{};
          }
          store(to + (row * shape.width + column) * kLanes, value);
          sum += value;
        }
      total += __builtin_convertvector(sum, Lanes<double>);
    }
    if (dbias != nullptr) store(dbias + block * kLanes, __builtin_convertvector(total, Lanes<T>));
  }
}

template <typename T>
void mean_pool(int64_t images, int64_t pixels, const T* x, T* y) {
#pragma omp parallel for
  for (int64_t image = 0; image < images; ++image) {
    Lanes<T> sum = {};
    for (int64_t pixel = 0; pixel < pixels; ++pixel)
      sum += load(x + (image * pixels + pixel) * kLanes);
    store(y + image * kLanes, sum / static_cast<T>(pixels));
  }
}

template <typename T>
void mean_pool_gradient(int64_t images, int64_t pixels, const T* dy, T* dx) {
#pragma omp parallel for
  for (int64_t image = 0; image < images; ++image) {
    const Lanes<T> share = load(dy + image * kLanes) / static_cast<T>(pixels);
    for (int64_t pixel = 0; pixel < pixels; ++pixel)
      store(dx + (image * pixels + pixel) * kLanes, share);
  }
}

#define LOCKSTEP_FOR(T)                                                                     \
  template void max_pool_relu(const PoolShape&, const T*, const T*, T*, uint8_t*);          \
  template void max_pool_relu_gradient(const PoolShape&, const T*, const uint8_t*, T*, T*); \
  template void mean_pool(int64_t, int64_t, const T*, T*);                                  \
  template void mean_pool_gradient(int64_t, int64_t, const T*, T*)
LOCKSTEP_FOR(float);
LOCKSTEP_FOR(double);
#undef LOCKSTEP_FOR

}  // namespace lockstep::kernels
