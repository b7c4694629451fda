#include "collective/plan/order.h"

#include <bit>

namespace lockstep::collective {

int64_t middle(int64_t begin, int64_t end) {
  const auto leaves = static_cast<uint64_t>(end - begin);
  return begin + static_cast<int64_t>(std::bit_ceil(leaves) / 2);
}

int depth(int64_t leaves) {
  return leaves <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<uint64_t>(leaves - 1)));
}

}  // namespace lockstep::collective
