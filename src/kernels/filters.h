#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace lockstep::kernels {

/// Memory that is aligned to cache lines, and not cleared.
template <typename T>
struct LineAllocator {
  using value_type = T;  // NOLINT(readability-identifier-naming): what std::vector asks for
  static constexpr std::align_val_t kLine{64};

  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* memory, size_t) { ::operator delete(memory, kLine); }
  void construct(T* at) { ::new (at) T; }
  bool operator==(const LineAllocator&) const = default;
};

/// Weights in the form that a method needs.
using Filters = std::vector<float, LineAllocator<float>>;

}  // namespace lockstep::kernels
