#include "collective/plan/send_receive.h"

#include "lockstep/error.h"

namespace lockstep::collective {

Plan send_receive(int world, int64_t count, int from, int to) {
  const auto is_rank = [&](int rank) { return rank >= 0 && rank < world; };
  if (!is_rank(from) || !is_rank(to))
    throw BadInput("send from rank {} to rank {}: expected 0 to {}", from, to, world - 1);
  const auto round = [=](int rank, int) {
    Round result;
    if (rank == from) result.send(to, kBucket, {0, count});
    if (rank == to) result.receive(from, kBucket, {0, count});
    return result;
  };
  return {world, count, from == to ? 0 : 1, 1, round};
}

}  // namespace lockstep::collective
