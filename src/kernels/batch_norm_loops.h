#pragma once

#include "kernels/batch_norm.h"
#include "kernels/register.h"

/// The loops behind batch_norm.h, for the processor that the including file is compiled for. A
/// channel's sums run over a sample's pixels in four strands of T, and over samples in doubles:
/// always in that order. Statistics are taken of differences to the channel's first pixel, so that
/// a large mean does not eat the variance's digits.
namespace lockstep::kernels {
namespace {

constexpr int64_t kStrands = 4;

// Sums of T over pixels that end in doubles: strand i is that of pixels i, i + 4, i + 8, ...; what
// is left at the end is added to strand 0.
template <typename T>
class Strands {
 public:
  [[gnu::always_inline]] void add(int64_t index, Register<T> value) { sums_[index] += value; }
  [[gnu::always_inline]] void add_rest(Lanes<T> value) { rest_[0] += value; }

  /// Call it between add and add_rest.
  [[gnu::always_inline]] void end_whole() {
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRegisters; ++i)
      store_register(reinterpret_cast<T*>(rest_ + i * kPixelsAtOnce<T>), sums_[i]);
  }
  [[gnu::always_inline]] Lanes<double> total() const {
    return __builtin_convertvector((rest_[0] + rest_[1]) + (rest_[2] + rest_[3]), Lanes<double>);
  }

 private:
  static constexpr int64_t kRegisters = kStrands / kPixelsAtOnce<T>;

  Register<T> sums_[kRegisters] = {};
  Lanes<T> rest_[kStrands];
};

// A channel's number, for one pixel or for several.
template <typename T>
struct OfChannel {
  [[gnu::always_inline]] explicit OfChannel(const T* from)
      : one(load(from)), all(load_apart(from, from, Register<T>{})) {}

  [[gnu::always_inline]] const Lanes<T>& like(const Lanes<T>& /*value*/) const { return one; }
#ifdef __AVX512F__
  [[gnu::always_inline]] const Wide& like(const Wide& /*value*/) const { return all; }
#endif

  Lanes<T> one;
  Register<T> all;
};

// Calls body(position, type) for all pixels of an image, as many as a register holds at a time.
template <typename T, typename Body>
[[gnu::always_inline]] inline void for_registers(int64_t begin, int64_t pixels, Body body) {
  const int64_t whole = pixels / kPixelsAtOnce<T> * kPixelsAtOnce<T>;
  const int64_t end = begin + whole * kLanes;
  for (int64_t at = begin; at < end; at += kPixelsAtOnce<T> * kLanes) body(at, Register<T>{});
  if constexpr (kPixelsAtOnce<T> > 1)
    if (whole < pixels) body(end, Lanes<T>{});
}

// Adds up over the pixels of an image: calls add(position, index of the register of strands), then
// end_whole(), then add_rest(position).
template <typename T, typename Add, typename EndWhole, typename AddRest>
[[gnu::always_inline]] inline void for_strands(int64_t begin, int64_t pixels, Add add,
                                               EndWhole end_whole, AddRest add_rest) {
  const int64_t whole = begin + pixels / kStrands * kStrands * kLanes;
  for (int64_t at = begin; at < whole; at += kStrands * kLanes)
#pragma GCC unroll 4
    for (int64_t i = 0; i < kStrands / kPixelsAtOnce<T>; ++i)
      add(at + i * kPixelsAtOnce<T> * kLanes, i);
  end_whole();
  for (int64_t at = whole; at < begin + pixels * kLanes; at += kLanes) add_rest(at);
}

template <typename V, typename T>
[[gnu::always_inline]] inline V where_active(V value, const T* y) {
  return load_register(y, V{}) <= 0 ? V{} : value;  // NaN stays
}

template <typename T>
[[gnu::always_inline]] inline void store_converted(T* to, Lanes<double> value) {
  store(to, __builtin_convertvector(value, Lanes<T>));
}

template <typename T>
void statistics(const ImageShape& shape, const T* x, T* mean, T* variance) {
#pragma omp parallel for
  for (int64_t block = 0; block < shape.blocks; ++block) {
    const OfChannel<T> first(x + block * shape.pixels * kLanes);
    Lanes<double> total = {}, total_of_squares = {};
    for (int64_t sample = 0; sample < shape.samples; ++sample) {
      Strands<T> differences, squares;
      for_strands<T>((sample * shape.blocks + block) * shape.pixels * kLanes, shape.pixels,
                     [&](int64_t at, int64_t index) __attribute__((always_inline)) {
                       const Register<T> difference =
                           load_register(x + at, Register<T>{}) - first.all;
                       differences.add(index, difference);
                       squares.add(index, difference * difference);
                     },
                     [&]() __attribute__((always_inline)) {
                       differences.end_whole();
                       squares.end_whole();
                     },
                     [&](int64_t at) __attribute__((always_inline)) {
                       const Lanes<T> difference = load(x + at) - first.one;
                       differences.add_rest(difference);
                       squares.add_rest(difference * difference);
                     });
      total += differences.total();
      total_of_squares += squares.total();
    }
    const double one_by_count = 1 / static_cast<double>(shape.samples * shape.pixels);
    const Lanes<double> shifted = total * one_by_count;
    store_converted(mean + block * kLanes,
                    __builtin_convertvector(first.one, Lanes<double>) + shifted);
    const Lanes<double> square = total_of_squares * one_by_count - shifted * shifted;
    store_converted(variance + block * kLanes, square < 0 ? Lanes<double>{} : square);
  }
}

template <bool kActivated, bool kMasked, typename T>
void sum_gradients(const ImageShape& shape, const T* dy, const T* y, const T* x, const T* mean,
                   const GradientSums<T>& sums, T* masked) {
#pragma omp parallel for
  for (int64_t block = 0; block < shape.blocks; ++block) {
    const OfChannel<T> centre(mean + block * kLanes);
    Lanes<double> total_g = {}, total_gx = {};
    for (int64_t sample = 0; sample < shape.samples; ++sample) {
      Strands<T> of_g, of_gx;
      const auto gradient = [&]<typename V>(int64_t at, V) __attribute__((always_inline)) {
        V g = load_register(dy + at, V{});
        if constexpr (kActivated) g = where_active(g, y + at);
        if constexpr (kMasked) store_register(masked + at, g);
        return g;
      };
      for_strands<T>((sample * shape.blocks + block) * shape.pixels * kLanes, shape.pixels,
                     [&](int64_t at, int64_t index) __attribute__((always_inline)) {
                       const Register<T> g = gradient(at, Register<T>{});
                       of_g.add(index, g);
                       of_gx.add(index, g * (load_register(x + at, Register<T>{}) - centre.all));
                     },
                     [&]() __attribute__((always_inline)) {
                       of_g.end_whole();
                       of_gx.end_whole();
                     },
                     [&](int64_t at) __attribute__((always_inline)) {
                       const Lanes<T> g = gradient(at, Lanes<T>{});
                       of_g.add_rest(g);
                       of_gx.add_rest(g * (load(x + at) - centre.one));
                     });
      total_g += of_g.total();
      total_gx += of_gx.total();
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
    const OfChannel<T> mean(affine.mean + channel), scale(affine.scale + channel),
        shift(affine.shift + channel);
    for_registers<T>(image * shape.pixels * kLanes, shape.pixels,
                     [&]<typename V>(int64_t at, V none) __attribute__((always_inline)) {
                       V value = (load_register(x + at, V{}) - mean.like(none)) * scale.like(none) +
                                 shift.like(none);
                       if constexpr (kResidual) value += load_register(residual + at, V{});
                       if constexpr (kRelu) value = value <= 0 ? V{} : value;
                       store_register(y + at, value);
                     });
  }
}

template <bool kActivated, typename T>
void write_input_gradient(const ImageShape& shape, const T* dy, const T* y, const T* x,
                          const GradientTerms<T>& terms, T* dx) {
#pragma omp parallel for
  for (int64_t image = 0; image < shape.samples * shape.blocks; ++image) {
    const int64_t channel = image % shape.blocks * kLanes;
    const OfChannel<T> mean(terms.mean + channel), of_g(terms.of_g + channel),
        of_x(terms.of_x + channel), constant(terms.constant + channel);
    for_registers<T>(image * shape.pixels * kLanes, shape.pixels,
                     [&]<typename V>(int64_t at, V none) __attribute__((always_inline)) {
                       V g = load_register(dy + at, V{});
                       if constexpr (kActivated) g = where_active(g, y + at);
                       const V centred = load_register(x + at, V{}) - mean.like(none);
                       store_register(dx + at, g * of_g.like(none) + (centred * of_x.like(none) +
                                                                      constant.like(none)));
                     });
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

}  // namespace
}  // namespace lockstep::kernels
