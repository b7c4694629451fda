#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep {

/// The elements begin .. end-1 of something.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  bool operator==(const Range&) const = default;
};

/// Slice `index` of `count` elements divided into `parts`; if they do not divide evenly, the first
/// slices are longer by one.
inline Range slice(int64_t count, int64_t parts, int64_t index) {
  const int64_t size = count / parts;
  const int64_t rest = count % parts;
  const int64_t begin = index * size + std::min(index, rest);
  return {begin, begin + size + (index < rest ? 1 : 0)};
}

}  // namespace lockstep
