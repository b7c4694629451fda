#pragma once

#include "kernels/pair.h"

/// As many numbers as a register of the processor holds that the including file is compiled for:
/// one pixel of one block, or with AVX-512 two pixels. The bits are the same, because no number
/// ever meets its neighbours. Without external linkage, as pair.h.
namespace lockstep::kernels {
namespace {

template <typename T, int64_t kPixels>
struct RegisterOf {
  using Type = Lanes<T>;
};
template <typename T>
constexpr int64_t kPixelsAtOnce = 1;

/// So many pixels.
template <typename T, int64_t kPixels = kPixelsAtOnce<T>>
using Register = typename RegisterOf<T, kPixels>::Type;

/// `second` is not read if there is one pixel.
template <typename T>
[[gnu::always_inline]] inline Lanes<T> load_apart(const T* first, const T* /*second*/, Lanes<T>) {
  return load(first);
}
template <int64_t kNumber, typename T>
[[gnu::always_inline]] inline void store_one(T* to, Lanes<T> value) {
  static_assert(kNumber == 0);
  store(to, value);
}
template <typename T>
[[gnu::always_inline]] inline Lanes<T> load_register(const T* from, Lanes<T>) {
  return load(from);
}
template <typename T>
[[gnu::always_inline]] inline void store_register(T* to, Lanes<T> value) {
  store(to, value);
}

template <typename T>
[[gnu::always_inline]] inline void store_apart(T* first, T* /*second*/, Lanes<T> value) {
  store(first, value);
}
/// sums[0] += the pixels with even numbers, sums[1] += the others; `number` is that of the first.
template <typename T>
[[gnu::always_inline]] inline void add_by_parity(Lanes<T>* sums, int64_t number, Lanes<T> value) {
  sums[number % 2] += value;
}

#ifdef __AVX512F__
template <>
struct RegisterOf<float, 2> {
  using Type = Wide;
};
template <>
constexpr int64_t kPixelsAtOnce<float> = 2;

[[gnu::always_inline]] inline Wide load_apart(const float* first, const float* second, Wide) {
  return load_pair(first, second).both;
}
template <int64_t kNumber>
[[gnu::always_inline]] inline Lanes<float> one_of(Wide v) {
  constexpr int kAt = kNumber * kLanes;
  return __builtin_shufflevector(v, v, kAt, kAt + 1, kAt + 2, kAt + 3, kAt + 4, kAt + 5, kAt + 6,
                                 kAt + 7);
}
template <int64_t kNumber>
[[gnu::always_inline]] inline void store_one(float* to, Wide value) {
  store<float>(to, one_of<kNumber>(value));
}
[[gnu::always_inline]] inline void store_apart(float* first, float* second, Wide value) {
  store_pair(first, second, {value});
}
template <typename T>
[[gnu::always_inline]] inline void add_by_parity(Lanes<T>* sums, int64_t /*number*/, Wide value) {
  sums[0] += one_of<0>(value);
  sums[1] += one_of<1>(value);
}
[[gnu::always_inline]] inline Wide load_register(const float* from, Wide) {
  return load_pair(from).both;
}
[[gnu::always_inline]] inline void store_register(float* to, Wide value) {
  *reinterpret_cast<UnalignedWide*>(to) = value;
}
#endif

}  // namespace
}  // namespace lockstep::kernels
