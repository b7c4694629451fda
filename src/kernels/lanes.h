#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// Kernels keep images *blocked*: [sample][channel / 8][row][column][channel % 8]. The last eight
/// numbers, one *pixel* of one *block* of channels, are read, computed and written as one.
inline constexpr int64_t kLanes = 8;

/// Out channels come in pairs of blocks.
inline constexpr int64_t kPair = 2 * kLanes;

/// One pixel of one block. (The compiler makes one register of it, or two: kernels hold no
/// intrinsics, but the files that include this are compiled for the processors `supported` names.)
template <typename T>
struct LanesOf;
template <>
struct LanesOf<float> {
  using Type [[gnu::vector_size(kLanes * sizeof(float)), gnu::may_alias]] = float;
};
template <>
struct LanesOf<double> {
  using Type [[gnu::vector_size(kLanes * sizeof(double)), gnu::may_alias]] = double;
};
template <typename T>
using Lanes = typename LanesOf<T>::Type;

/// LibTorch aligns tensors to 64 bytes, but views may be unaligned.
template <typename T>
struct UnalignedLanesOf {
  using Type [[gnu::aligned(alignof(T))]] = Lanes<T>;
};

template <typename T>
[[gnu::always_inline]] inline Lanes<T> load(const T* from) {
  return *reinterpret_cast<const typename UnalignedLanesOf<T>::Type*>(from);
}

template <typename T>
[[gnu::always_inline]] inline void store(T* to, Lanes<T> value) {
  *reinterpret_cast<typename UnalignedLanesOf<T>::Type*>(to) = value;
}

}  // namespace lockstep::kernels
