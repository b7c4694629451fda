#pragma once

#include <algorithm>
#include <cstdint>

#include "collective/plan/plan.h"

namespace lockstep::collective {

/// Slice `index` of `count` elements cut into `parts`, the first ones longer by one where it does
/// not divide.
inline Range slice(int64_t count, int64_t parts, int64_t index) {
  const int64_t size = count / parts;
  const int64_t rest = count % parts;
  const int64_t begin = index * size + std::min(index, rest);
  return {begin, begin + size + (index < rest ? 1 : 0)};
}

}  // namespace lockstep::collective
