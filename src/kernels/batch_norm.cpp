// Passes of BatchNorm over blocked images. A channel's sums run over a sample's pixels in four
// strands of T, and over samples in doubles: always in that order. Statistics are taken of
// differences to the channel's first pixel, so that a large mean does not eat the variance's
// digits.
#include "kernels/batch_norm.h"

#include "kernels/lanes.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kStrands = 4;

// Two sums of T over pixels that end in doubles.
template <typename T>
struct Sums {
  Lanes<T> a[kStrands] = {};
  Lanes<T> b[kStrands] = {};

  [[gnu::always_inline]] void end_sample(Lanes<double>& total_a, Lanes<double>& total_b) {
    total_a += __builtin_convertvector((a[0] + a[1]) + (a[2] + a[3]), Lanes<double>);
    total_b += __builtin_convertvector((b[0] + b[1]) + (b[2] + b[3]), Lanes<double>);
  }
};

// Calls `body(pixel, strand)` for every pixel.
template <typename Body>
[[gnu::always_inline]] inline void for_pixels(int64_t pixels, Body body) {
  int64_t pixel = 0;
  for (; pixel + kStrands <= pixels; pixel += kStrands)
#pragma GCC unroll 4
    for (int64_t strand = 0; strand < kStrands; ++strand) body(pixel + strand, strand);
  for (; pixel < pixels; ++pixel) body(pixel, 0);
}

template <typename T>
[[gnu::always_inline]] inline Lanes<T> where_active(Lanes<T> value, const T* y) {
  return load(y) <= 0 ? Lanes<T>{} : value;  // what is not a number stays
}

template <typename T>
[[gnu::always_inline]] inline void store_converted(T* to, Lanes<double> value) {
  store(to, __builtin_convertvector(value, Lanes<T>));
}

template <bool kActivated, bool kMasked, typename T>
void sum_gradients(const ImageShape& shape, const T* dy, const T* y, const T* x, const T* mean,
                   const GradientSums<T>& sums, T* masked) {
#pragma omp parallel for
  for (int64_t block = 0; block < shape.blocks; ++block) {
    const Lanes<T> centre = load(mean + block * kLanes);
    Lanes<double> total_g = {}, total_gx = {};
    for (int64_t sample = 0; sample < shape.samples; ++sample) {
      const int64_t begin = (sample * shape.blocks + block) * shape.pixels * kLanes;
      Sums<T> of;
      for_pixels(shape.pixels, [&](int64_t pixel, int64_t strand) {
        const int64_t at = begin + pixel * kLanes;
        Lanes<T> g = load(dy + at);
        if constexpr (kActivated) g = where_active(g, y + at);
        if constexpr (kMasked) store(masked + at, g);
        of.a[strand] += g;
        of.b[strand] += g * (load(x + at) - centre);
      });
      of.end_sample(total_g, total_gx);
    }
    store_converted(sums.of_g + block * kLanes, total_g);
    store_converted(sums.of_g_x + block * kLanes, total_gx);
  }
}

template <bool kResidual, bool kRelu, typename T>
void normalise_images(const ImageShape& shape, const T* x, const Affine<T>& affine,
                      const T* residual, T* y) {
#pragma omp parallel for
  for (int64_t image = 0; image < shape.samples * shape.blocks; ++image) {
    const int64_t channel = image % shape.blocks * kLanes;
    const Lanes<T> mean = load(affine.mean + channel), scale = load(affine.scale + channel),
                   shift = load(affine.shift + channel);
    const int64_t end = (image + 1) * shape.pixels * kLanes;
    for (int64_t at = image * shape.pixels * kLanes; at < end; at += kLanes) {
      Lanes<T> value = (load(x + at) - mean) * scale + shift;
      if constexpr (kResidual) value += load(residual + at);
      if constexpr (kRelu) value = value <= 0 ? Lanes<T>{} : value;
      store(y + at, value);
    }
  }
}

template <bool kActivated, typename T>
void write_input_gradient(const ImageShape& shape, const T* dy, const T* y, const T* x,
                          const GradientTerms<T>& terms, T* dx) {
#pragma omp parallel for
  for (int64_t image = 0; image < shape.samples * shape.blocks; ++image) {
    const int64_t channel = image % shape.blocks * kLanes;
    const Lanes<T> mean = load(terms.mean + channel), of_g = load(terms.of_g + channel),
                   of_x = load(terms.of_x + channel), constant = load(terms.constant + channel);
    const int64_t end = (image + 1) * shape.pixels * kLanes;
    for (int64_t at = image * shape.pixels * kLanes; at < end; at += kLanes) {
      Lanes<T> g = load(dy + at);
      if constexpr (kActivated) g = where_active(g, y + at);
      store(dx + at, g * of_g + ((load(x + at) - mean) * of_x + constant));
    }
  }
}

}  // namespace

template <typename T>
void channel_statistics(const ImageShape& shape, const T* x, T* mean, T* variance) {
#pragma omp parallel for
  for (int64_t block = 0; block < shape.blocks; ++block) {
    const Lanes<T> first = load(x + block * shape.pixels * kLanes);
    Lanes<double> total = {}, total_of_squares = {};
    for (int64_t sample = 0; sample < shape.samples; ++sample) {
      const T* from = x + (sample * shape.blocks + block) * shape.pixels * kLanes;
      Sums<T> of;
      for_pixels(shape.pixels, [&](int64_t pixel, int64_t strand) {
        const Lanes<T> difference = load(from + pixel * kLanes) - first;
        of.a[strand] += difference;
        of.b[strand] += difference * difference;
      });
      of.end_sample(total, total_of_squares);
    }
    const double one_by_count = 1 / static_cast<double>(shape.samples * shape.pixels);
    const Lanes<double> shifted = total * one_by_count;
    store_converted(mean + block * kLanes, __builtin_convertvector(first, Lanes<double>) + shifted);
    const Lanes<double> square = total_of_squares * one_by_count - shifted * shifted;
    store_converted(variance + block * kLanes, square < 0 ? Lanes<double>{} : square);
  }
}

template <typename T>
void normalise(const ImageShape& shape, const T* x, const Affine<T>& affine, const T* residual,
               Rectify rectify, T* y) {
  if (residual != nullptr)
    rectify == Rectify::yes ? normalise_images<true, true>(shape, x, affine, residual, y)
                            : normalise_images<true, false>(shape, x, affine, residual, y);
  else
    rectify == Rectify::yes ? normalise_images<false, true>(shape, x, affine, residual, y)
                            : normalise_images<false, false>(shape, x, affine, residual, y);
}

template <typename T>
void gradient_sums(const ImageShape& shape, const T* dy, const T* y, const T* x, const T* mean,
                   const GradientSums<T>& sums, T* masked) {
  if (y == nullptr)
    sum_gradients<false, false>(shape, dy, y, x, mean, sums, masked);
  else if (masked == nullptr)
    sum_gradients<true, false>(shape, dy, y, x, mean, sums, masked);
  else
    sum_gradients<true, true>(shape, dy, y, x, mean, sums, masked);
}

template <typename T>
void input_gradient(const ImageShape& shape, const T* dy, const T* y, const T* x,
                    const GradientTerms<T>& terms, T* dx) {
  y == nullptr ? write_input_gradient<false>(shape, dy, y, x, terms, dx)
               : write_input_gradient<true>(shape, dy, y, x, terms, dx);
}

#define LOCKSTEP_FOR(T)                                                                          \
  template void channel_statistics(const ImageShape&, const T*, T*, T*);                         \
  template void normalise(const ImageShape&, const T*, const Affine<T>&, const T*, Rectify, T*); \
  template void gradient_sums(const ImageShape&, const T*, const T*, const T*, const T*,         \
                              const GradientSums<T>&, T*);                                       \
  template void input_gradient(const ImageShape&, const T*, const T*, const T*,                  \
                               const GradientTerms<T>&, T*)
LOCKSTEP_FOR(float);
LOCKSTEP_FOR(double);
#undef LOCKSTEP_FOR

}  // namespace lockstep::kernels
