#include "collective/plan/shards.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::collective {
namespace {

void collect(Term node, Term wanted, std::vector<Term>& found) {
  if (node.end <= wanted.begin || wanted.end <= node.begin) return;
  if (wanted.begin <= node.begin && node.end <= wanted.end) {
    found.push_back(node);
    return;
  }
  const int64_t half = middle(node.begin, node.end);
  collect({node.begin, half}, wanted, found);
  collect({half, node.end}, wanted, found);
}

}  // namespace

int64_t middle(int64_t begin, int64_t end) {
  const auto leaves = static_cast<uint64_t>(end - begin);
  return begin + static_cast<int64_t>(std::bit_ceil(leaves) / 2);
}

int depth(int64_t leaves) {
  return leaves <= 1 ? 0 : 64 - std::countl_zero(static_cast<uint64_t>(leaves - 1));
}

std::vector<Term> largest_nodes(int64_t shards, int64_t begin, int64_t end) {
  std::vector<Term> found;
  collect({0, shards}, {begin, end}, found);
  return found;
}

Shards Shards::even(int64_t shards, int world) {
  if (world < 1 || world > shards)
    throw BadInput("{} workers for {} shards: expected 1 to {} workers, so that each has a shard",
                   world, shards, shards);
  std::vector<int64_t> bounds;
  for (int64_t rank = 0; rank <= world; ++rank) bounds.push_back(rank * shards / world);
  return Shards(std::move(bounds));
}

Shards Shards::cut(int64_t pieces) const {
  std::vector<int64_t> bounds = bounds_;
  for (int64_t& bound : bounds) bound *= pieces;
  return Shards(std::move(bounds));
}

Shards::Shards(std::vector<int64_t> bounds) : bounds_(std::move(bounds)) {
  const bool grow =
      std::adjacent_find(bounds_.begin(), bounds_.end(), std::greater_equal<>()) == bounds_.end();
  if (bounds_.size() < 2 || bounds_.front() != 0 || !grow)
    throw BadInput("the bounds of the shards that ranks own are {}: expected them to grow from 0",
                   fmt::join(bounds_, ", "));
  for (size_t rank = 0; rank + 1 < bounds_.size(); ++rank)
    terms_.push_back(largest_nodes(count(), bounds_[rank], bounds_[rank + 1]));
}

int Shards::most_terms() const {
  size_t most = 0;
  for (const auto& terms : terms_) most = std::max(most, terms.size());
  return static_cast<int>(most);
}

Slot fold_terms(Round& round, std::span<const Placed> terms, Range range) {
  if (terms.size() == 1) return terms.front().slot;
  const int64_t half = middle(terms.front().term.begin, terms.back().term.end);
  const auto right = std::partition_point(
      terms.begin(), terms.end(), [&](const Placed& placed) { return placed.term.begin < half; });
  Slot into = fold_terms(round, {terms.begin(), right}, range);
  Slot from = fold_terms(round, {right, terms.end()}, range);
  if (from == kBucket) std::swap(into, from);
  round.fold(into, from, range);
  return into;
}

std::vector<Placed> place_terms(const Shards& shards, RankRange group, int rank) {
  std::vector<Placed> placed;
  auto next = static_cast<Slot>(shards.terms_of(rank).size());
  for (int owner = group.first; owner < group.last; ++owner) {
    Slot own = 0;
    for (const Term& term : shards.terms_of(owner))
      placed.push_back({term, owner == rank ? own++ : next++});
  }
  return placed;
}

Round exchange_slices(const Shards& shards, RankRange group, int rank, int64_t count) {
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

}  // namespace lockstep::collective
