// A root gets every rank's slice, or hands them out, straight: the root's link carries every slice
// once however they travel, and a tree would only make others carry them as well.
#include "collective/plan/gather.h"

#include "base/range.h"
#include "collective/plan/tree.h"

namespace lockstep::collective {

Plan gather(int world, int64_t count, int root) {
  check_root(root, world);
  const auto round = [=](int rank, int) {
    Round result;
    if (rank != root) result.send(root, kBucket, slice(count, world, rank));
    for (int peer = 0; rank == root && peer < world; ++peer)
      if (peer != root) result.receive(peer, kBucket, slice(count, world, peer));
    return result;
  };
  return {world, count, world > 1 ? 1 : 0, 1, round};
}

Plan scatter(int world, int64_t count, int root) {
  check_root(root, world);
  const auto round = [=](int rank, int) {
    Round result;
    if (rank != root) result.receive(root, kBucket, slice(count, world, rank));
    for (int peer = 0; rank == root && peer < world; ++peer)
      if (peer != root) result.send(peer, kBucket, slice(count, world, peer));
    return result;
  };
  return {world, count, world > 1 ? 1 : 0, 1, round};
}

}  // namespace lockstep::collective
