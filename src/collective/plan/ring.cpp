// All-reduce around a ring, in 2 (n-1) rounds of 1/n of the bucket.
//
// Every rank sends to the next one. Each slice travels once around the ring, and every rank adds
// its contribution: slice s starts at rank s and is complete at rank s-1. So every slice is added
// in an order of its own, which depends on the world size. Then the complete slices travel around
// the ring once more. A rank with several terms adds them first, in a round without messages.
#include <vector>

#include "base/range.h"
#include "collective/plan/all_reduce.h"

namespace lockstep::collective {
namespace {

Plan ring(const Shards& shards, int64_t count) {
  const int world = shards.world_size();
  std::vector<int> terms;
  for (int rank = 0; rank < world; ++rank)
    terms.push_back(static_cast<int>(shards.terms_of(rank).size()));
  const auto round = [=](int rank, int index) {
    Round result;
    const bool adding = index < world - 1;
    const int right = (rank + 1) % world;
    const int left = (rank + world - 1) % world;
    const int step = adding ? index : index - world;
    const auto slice_of = [&](int sender) {
      return slice(count, world, ((sender - step) % world + world) % world);
    };
    const Slot scratch = terms[static_cast<size_t>(rank)];
    result.send(right, kBucket, slice_of(rank));
    result.receive(left, adding ? scratch : kBucket, slice_of(left));
    if (adding) result.fold(kBucket, scratch, slice_of(left));
    if (index == world - 2) result.finish(slice_of(left));
    return result;
  };
  return sequence(fold_own_terms(shards, count),
                  {world, count, 2 * (world - 1), shards.most_terms() + 1, round});
}

[[maybe_unused]] const bool ring_added = algorithms().add(
    {.name = "ring",
     .about = "slices travel around a ring and are added on the way, then once more",
     .rounds = "2 (n-1)",
     .cost = "2 (n-1) (latency + size/n/bandwidth)",
     .make = ring});

}  // namespace
}  // namespace lockstep::collective
