// Cuts the canonical tree over shards so that every rank is responsible for one node.
//
// A node of several ranks is split in the middle. Where the middle lies among the shards of one
// rank, either of the rank's *bounds* may move there: the neighbour then adds what the rank owns on
// that side. The bound of a rank at the edge of the node stays, or a rank outside the node would
// have to add to it. Of the two possible moves, the one that makes the lower tree is taken, then
// the one that sends fewer terms. Invariant: ranks begin .. end-1 of a node are together
// responsible for exactly the node's shards, each for at least one, and no bound between them has
// moved yet.
#include "collective/plan/rank_tree.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace lockstep::collective {

class RankTree::Cut {
 public:
  explicit Cut(const Shards& shards) : bounds_(shards.bounds()) {
    for (int rank = 0; rank < shards.world_size(); ++rank)
      for (const Term& term : shards.terms_of(rank)) terms_.push_back(term.begin);
  }

  // The rank that the right part of a node begins with.
  int first_right(Term node, int begin, int end) {
    const int64_t half = middle(node.begin, node.end);
    const auto inner = bounds_.begin() + begin + 1;
    const auto after = std::upper_bound(inner, bounds_.begin() + end, half);
    const int rank = static_cast<int>(after - bounds_.begin()) - 1;  // it owns shard `half`
    if (rank == begin) return rank + 1;
    if (bounds_[static_cast<size_t>(rank)] == half || rank + 1 == end) return rank;
    const Cost give_left = cost_of_split(node, begin, rank, end);
    const Cost give_right = cost_of_split(node, begin, rank + 1, end);
    return give_right < give_left ? rank + 1 : rank;
  }

 private:
  struct Cost {
    int height = 0;
    int64_t moved = 0;

    bool operator<(const Cost& other) const {
      return height != other.height ? height < other.height : moved < other.moved;
    }
  };

  Cost cost_of_split(Term node, int begin, int right, int end) {
    const int64_t half = middle(node.begin, node.end);
    const Cost a = cost({node.begin, half}, begin, right);
    const Cost b = cost({half, node.end}, right, end);
    return {1 + std::max(a.height, b.height), a.moved + b.moved};
  }

  Cost cost(Term node, int begin, int end) {
    if (end - begin == 1) return {0, terms_moved_to(begin, node)};
    const auto key = std::tuple(node.begin, node.end, begin, end);
    if (const auto known = costs_.find(key); known != costs_.end()) return known->second;
    return costs_[key] = cost_of_split(node, begin, first_right(node, begin, end), end);
  }

  int64_t terms_moved_to(int rank, Term node) const {
    const int64_t own_begin = std::max(node.begin, bounds_[static_cast<size_t>(rank)]);
    const int64_t own_end = std::min(node.end, bounds_[static_cast<size_t>(rank) + 1]);
    return terms_in(node.begin, node.end) - terms_in(own_begin, std::max(own_begin, own_end));
  }

  int64_t terms_in(int64_t begin, int64_t end) const {
    return std::lower_bound(terms_.begin(), terms_.end(), end) -
           std::lower_bound(terms_.begin(), terms_.end(), begin);
  }

  const std::vector<int64_t>& bounds_;  // by rank, as owned
  std::vector<int64_t> terms_;          // where each of all ranks begins
  std::map<std::tuple<int64_t, int64_t, int, int>, Cost> costs_;
};

RankTree::RankTree(const Shards& shards) : bounds_(shards.bounds()) {
  Cut cut(shards);
  grow(cut, {0, shards.count()}, 0, shards.world_size());
}

size_t RankTree::grow(Cut& cut, Term shards, int begin, int end) {
  const size_t at = vertices_.size();
  vertices_.push_back({{begin, end, end}, 0, at, at});
  bounds_[static_cast<size_t>(begin)] = shards.begin;
  if (end - begin == 1) return at;
  const int64_t half = middle(shards.begin, shards.end);
  const int first_right = cut.first_right(shards, begin, end);
  const size_t left = grow(cut, {shards.begin, half}, begin, first_right);
  const size_t right = grow(cut, {half, shards.end}, first_right, end);
  const int height = 1 + std::max(vertices_[left].height, vertices_[right].height);
  vertices_[at] = {{begin, first_right, end}, height, left, right};
  return at;
}

int RankTree::responsible_for(int64_t shard) const {
  const auto after = std::upper_bound(bounds_.begin(), bounds_.end(), shard);
  return static_cast<int>(after - bounds_.begin()) - 1;
}

std::optional<Node> RankTree::node(int rank, int level) const {
  const Vertex* at = &vertices_.front();
  while (at->height > level + 1) at = &vertices_[rank < at->node.middle ? at->left : at->right];
  if (at->height != level + 1) return std::nullopt;
  return at->node;
}

Start::Start(const Shards& shards, int64_t count)
    : count_(count),
      tree_(shards),
      ranks_(static_cast<size_t>(shards.world_size())),
      moves_(tree_.bounds() != shards.bounds()) {
  const auto placed = move_terms(shards);
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    ranks_[rank].held = fold_terms(ranks_[rank].round, placed[rank], whole());
}

// Fills in the messages; returns for each rank the terms that it has to fold, in order.
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
