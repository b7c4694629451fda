// Barrier by dissemination. Before round k, a rank knows that the 2^k - 1 ranks before it (counted
// round) have arrived; it tells the rank 2^k after it, and hears from the rank 2^k before it.
#include "collective/plan/barrier.h"

#include "collective/plan/order.h"

namespace lockstep::collective {

Plan barrier(int world) {
  const auto round = [=](int rank, int index) {
    const int distance = 1 << index;
    Round result;
    result.send((rank + distance) % world, kBucket, {0, 1});
    result.receive((rank - distance + world) % world, 1, {0, 1});
    return result;
  };
  return {world, 1, depth(world), 2, round};
}

}  // namespace lockstep::collective
