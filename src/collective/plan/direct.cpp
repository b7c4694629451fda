// Every rank adds one slice of the bucket, for all.
//
// Rank r gets slice r of every term of every rank and folds them along the tree over shards: that
// is reduce-scatter. All-reduce then hands every slice to everyone. Where ranks see each other's
// memory nothing need be copied: a rank adds its slice straight out of everyone's terms.
#include "collective/plan/direct.h"

#include "base/range.h"
#include "collective/plan/start.h"

namespace lockstep::collective {
namespace {

Plan hand_out(int world, int64_t count) {
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

}  // namespace

std::vector<Placed> place_terms(const Shards& shards, Group group, int rank) {
  std::vector<Placed> placed;
  auto next = static_cast<Slot>(shards.terms_of(rank).size());
  for (int owner = group.first; owner < group.last; ++owner) {
    Slot own = 0;
    for (const Term& term : shards.terms_of(owner))
      placed.push_back({term, owner == rank ? own++ : next++});
  }
  return placed;
}

Round exchange_slices(const Shards& shards, Group group, int rank, int64_t count) {
  const auto slice_of = [&](int peer) { return slice(count, group.size(), peer - group.first); };
  const auto terms_of = [&](int peer) { return static_cast<Slot>(shards.terms_of(peer).size()); };
  Round round;
  Slot landing = terms_of(rank);
  for (int peer = group.first; peer < group.last; ++peer) {
    if (peer == rank) continue;
    for (Slot slot = 0; slot < terms_of(rank); ++slot) round.send(peer, slot, slice_of(peer));
    for (int i = 0; i < terms_of(peer); ++i) round.receive(peer, landing++, slice_of(rank));
  }
  return round;
}

Plan reduce_scatter(const Shards& shards, int64_t count) {
  if (shards.world_size() == 1) return finish_alone(shards, count);
  const int world = shards.world_size();
  const Group all{0, world};
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

Plan direct(const Shards& shards, int64_t count) {
  return sequence(reduce_scatter(shards, count), hand_out(shards.world_size(), count));
}

}  // namespace lockstep::collective
