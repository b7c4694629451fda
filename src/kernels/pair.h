#pragma once

#include "kernels/lanes.h"

/// Pixels of two blocks, 16 numbers. They are one register where a file is compiled for AVX-512,
/// two for AVX2: with the same bits, because no number ever meets its neighbours. Without external
/// linkage: the linker must not use code compiled for one processor in a file for another.
namespace lockstep::kernels {
namespace {

template <typename T>
struct Pair {
  Lanes<T> first;
  Lanes<T> second;

  [[gnu::always_inline]] void add_product(const Pair& f, T value) {
    first += f.first * value;
    second += f.second * value;
  }
  [[gnu::always_inline]] void add(const Pair& other) {
    first += other.first;
    second += other.second;
  }
};

template <typename T>
[[gnu::always_inline]] inline Pair<T> load_pair(const T* from) {
  return {load(from), load(from + kLanes)};
}
template <typename T>
[[gnu::always_inline]] inline Pair<T> load_pair(const T* first, const T* second) {
  return {load(first), load(second)};
}
template <typename T>
[[gnu::always_inline]] inline void store_pair(T* first, T* second, const Pair<T>& pair) {
  store(first, pair.first);
  store(second, pair.second);
}

#ifdef __AVX512F__
using Wide [[gnu::vector_size(kPair * sizeof(float)), gnu::may_alias]] = float;
using UnalignedWide [[gnu::aligned(alignof(float))]] = Wide;

template <>
struct Pair<float> {
  Wide both;

  [[gnu::always_inline]] void add_product(const Pair& f, float value) { both += f.both * value; }
  [[gnu::always_inline]] void add(const Pair& other) { both += other.both; }
};

[[gnu::always_inline]] inline Pair<float> load_pair(const float* from) {
  return {*reinterpret_cast<const UnalignedWide*>(from)};
}
[[gnu::always_inline]] inline Pair<float> load_pair(const float* first, const float* second) {
  return {__builtin_shufflevector(load(first), load(second), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
                                  12, 13, 14, 15)};
}
[[gnu::always_inline]] inline void store_pair(float* first, float* second,
                                              const Pair<float>& pair) {
  store<float>(first, __builtin_shufflevector(pair.both, pair.both, 0, 1, 2, 3, 4, 5, 6, 7));
  store<float>(second, __builtin_shufflevector(pair.both, pair.both, 8, 9, 10, 11, 12, 13, 14, 15));
}
#endif

}  // namespace
}  // namespace lockstep::kernels
