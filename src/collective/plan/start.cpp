#include "collective/plan/start.h"

#include <algorithm>

namespace lockstep::collective {

Start::Start(const Shards& shards, int64_t count)
    : count_(count),
      tree_(shards),
      ranks_(static_cast<size_t>(shards.world_size())),
      moves_(tree_.bounds() != shards.bounds()) {
  const auto placed = move_terms(shards);
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    ranks_[rank].held = fold_terms(ranks_[rank].round, placed[rank], whole());
}

// Fills in messages; returns for each rank the terms that it is to fold, in order.
std::vector<std::vector<Placed>> Start::move_terms(const Shards& shards) {
  std::vector<std::vector<Placed>> placed(ranks_.size());
  std::vector<Slot> next;
  next.reserve(ranks_.size());
  for (int rank = 0; rank < world_size(); ++rank) {
    next.push_back(static_cast<Slot>(shards.terms_of(rank).size()));
    ranks_[static_cast<size_t>(rank)].scratch = next.back();
    slots_ = std::max(slots_, next.back() + 1);
  }
  for (int owner = 0; owner < world_size(); ++owner) {
    Slot slot = 0;
    for (const Term& term : shards.terms_of(owner)) {
      const int rank = tree_.responsible_for(term.begin);
      const auto to = static_cast<size_t>(rank);
      const Slot landing = rank == owner ? slot : next[to]++;
      if (rank != owner) {
        ranks_[static_cast<size_t>(owner)].round.send(rank, slot, whole());
        ranks_[to].round.receive(owner, landing, whole());
      }
      placed[to].push_back({term, landing});
      ++slot;
    }
  }
  for (const Slot slots : next) slots_ = std::max(slots_, slots);
  return placed;
}

Plan Start::plan(const std::shared_ptr<const Start>& start) {
  return {start->world_size(), start->count_, start->moves_ ? 1 : 0, start->slots_,
          [start](int rank, int) { return start->ranks_[static_cast<size_t>(rank)].round; }};
}

Slot Start::sum(int rank, const Node& node) const {
  return node.part_of(rank) == 1 ? held(rank) : kBucket;
}

void Start::add_from(Round& round, int rank, const Node& node, int peer, Range range) const {
  const Slot own = sum(rank, node);
  const Slot landing = own == kBucket ? scratch(rank) : kBucket;
  round.receive(peer, landing, range);
  round.fold(kBucket, own == kBucket ? landing : own, range);
}

Plan finish_alone(const Shards& shards, int64_t count) {
  return {1, count, shards.count() > 1 ? 1 : 0, 1, [count](int, int) {
            Round round;
            round.finish({0, count});
            return round;
          }};
}

}  // namespace lockstep::collective
