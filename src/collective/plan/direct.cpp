// Every rank adds one slice of the bucket on behalf of all ranks.
//
// Rank r receives slice r of every term of every rank and folds them along the tree over shards:
// that is reduce-scatter. All-reduce then sends every slice to every rank. Terms need not be whole
// nodes, so no round is added for them. Where ranks see each other's memory, nothing need be
// copied: a rank reads its slice from every rank's terms (collective/shared_direct.h).
#include <memory>

#include "base/range.h"
#include "collective/plan/all_reduce.h"
#include "collective/plan/collectives.h"
#include "collective/plan/rank_tree.h"

namespace lockstep::collective {
namespace {

Plan send_slices(int world, int64_t count) {
  return {world, count, 1, 1, [=](int rank, int) {
            Round round;
            for (int peer = 0; peer < world; ++peer) {
              if (peer == rank) continue;
              round.send(peer, kBucket, slice(count, world, rank));
              round.receive(peer, kBucket, slice(count, world, peer));
            }
            return round;
          }};
}

Plan direct(const Shards& shards, int64_t count) {
  return sequence(reduce_scatter(shards, count), send_slices(shards.world_size(), count));
}

[[maybe_unused]] const bool direct_added =
    algorithms().add({.name = "direct",
                      .about = "every rank sums one slice of all buckets, and sends it to all",
                      .rounds = "2",
                      .cost = "2 latency + 2 (n-1)/n size/bandwidth",
                      .canonical = true,
                      .in_shared_memory = true,
                      .make = direct});

}  // namespace

Plan reduce_scatter(const Shards& shards, int64_t count) {
  if (shards.world_size() == 1) return finish_alone(shards, count);
  const int world = shards.world_size();
  const RankRange all{0, world};
  const auto owned = std::make_shared<const Shards>(shards);
  const auto round = [=](int rank, int) {
    Round result = exchange_slices(*owned, all, rank, count);
    const Range own = slice(count, world, rank);
    fold_terms(result, place_terms(*owned, all, rank), own);
    result.finish(own);
    return result;
  };
  return {world, count, 1, static_cast<int>(place_terms(shards, all, 0).size()), round};
}

}  // namespace lockstep::collective
