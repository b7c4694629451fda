#include "collective/order.h"

#include <bit>

namespace lockstep::collective {

int64_t middle(int64_t begin, int64_t end) {
  const auto leaves = static_cast<uint64_t>(end - begin);
  return begin + static_cast<int64_t>(std::bit_ceil(leaves) / 2);
}

int depth(int64_t leaves) {
  return leaves <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<uint64_t>(leaves - 1)));
}

std::optional<Node> find_node(int world, int rank, int level) {
  int64_t begin = 0;
  int64_t end = world;
  while (depth(end - begin) > level + 1) {
    const int64_t half = middle(begin, end);
    (rank < half ? end : begin) = half;
  }
  if (depth(end - begin) != level + 1) return std::nullopt;
  return Node{static_cast<int>(begin), static_cast<int>(middle(begin, end)), static_cast<int>(end)};
}

}  // namespace lockstep::collective
