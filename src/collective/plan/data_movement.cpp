// Collectives that move data and add nothing.
//
// *All-gather* by Bruck's algorithm, for any number of ranks. Ranks stand in a circle, in the order
// in which their shares begin; a rank's *place* counts from 0. Before round k, the rank at place p
// has the shares of places p .. p + 2^k - 1 (modulo n, and at most all). It sends them to place
// p - 2^k and receives as many from place p + 2^k, or only those that are still missing; so over
// all rounds a rank sends as much as it receives: everything but one share. The shares of
// neighbours in the circle are often adjacent in the bucket, and travel as one range.
//
// *Barrier* by dissemination. Before round k, a rank knows that the 2^k - 1 ranks before it (modulo
// n) have entered; it tells the rank 2^k after it, and hears from the rank 2^k before it.
//
// *Gather and scatter* go straight to the root and from it: the root's link carries every slice
// once in any case, and a tree would only make other links carry slices as well.
#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "base/range.h"
#include "collective/plan/collectives.h"

namespace lockstep::collective {
namespace {

class Circle {
 public:
  explicit Circle(const std::vector<Share>& shares) : rank_at_(shares.size()) {
    const auto begin_of = [&](int rank) {
      const Share& share = shares[static_cast<size_t>(rank)];
      return share.empty() ? 0 : share.front().begin;
    };
    std::iota(rank_at_.begin(), rank_at_.end(), 0);
    std::stable_sort(rank_at_.begin(), rank_at_.end(),
                     [&](int a, int b) { return begin_of(a) < begin_of(b); });
    place_of_.resize(rank_at_.size());
    for (int place = 0; place < size(); ++place) {
      place_of_[static_cast<size_t>(rank_at(place))] = place;
      for (const Range& range : shares[static_cast<size_t>(rank_at(place))])
        if (!range.empty()) pieces_.push_back({range, place});
    }
    std::sort(pieces_.begin(), pieces_.end(),
              [](const Piece& a, const Piece& b) { return a.range.begin < b.range.begin; });
  }

  int size() const { return static_cast<int>(rank_at_.size()); }
  int place_of(int rank) const { return place_of_[static_cast<size_t>(rank)]; }
  int rank_at(int place) const { return rank_at_[static_cast<size_t>(place)]; }

  // All that `many` places from `first` on have, as few ranges as possible.
  Share joined(int first, int many) const {
    Share ranges;
    for (const Piece& piece : pieces_) {
      const int from_first = piece.place - first + (piece.place < first ? size() : 0);
      if (from_first >= many) continue;
      if (!ranges.empty() && ranges.back().end == piece.range.begin)
        ranges.back().end = piece.range.end;
      else
        ranges.push_back(piece.range);
    }
    return ranges;
  }

 private:
  struct Piece {
    Range range;
    int place;
  };

  std::vector<int> rank_at_;   // by place
  std::vector<int> place_of_;  // by rank
  std::vector<Piece> pieces_;  // of the bucket, in order
};

}  // namespace

Plan all_gather(int world, int64_t count) {
  std::vector<Share> slices;
  slices.reserve(static_cast<size_t>(world));
  for (int rank = 0; rank < world; ++rank) slices.push_back({slice(count, world, rank)});
  return all_gather(slices, count);
}

Plan all_gather(const std::vector<Share>& shares, int64_t count) {
  const auto circle = std::make_shared<const Circle>(shares);
  const int world = circle->size();
  const auto round = [=](int rank, int index) {
    Round result;
    const int distance = 1 << index;
    const int many = std::min(distance, world - distance);
    const int place = circle->place_of(rank);
    const int before = (place - distance + world) % world;
    const int after = (place + distance) % world;
    for (const Range& range : circle->joined(place, many))
      result.send(circle->rank_at(before), kBucket, range);
    for (const Range& range : circle->joined(after, many))
      result.receive(circle->rank_at(after), kBucket, range);
    return result;
  };
  return {world, count, depth(world), 1, round};
}

Plan gather(int world, int64_t count, int root) {
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
  const auto round = [=](int rank, int) {
    Round result;
    if (rank != root) result.receive(root, kBucket, slice(count, world, rank));
    for (int peer = 0; rank == root && peer < world; ++peer)
      if (peer != root) result.send(peer, kBucket, slice(count, world, peer));
    return result;
  };
  return {world, count, world > 1 ? 1 : 0, 1, round};
}

Plan all_to_all(int world, int64_t count) {
  const auto round = [=](int rank, int) {
    Round result;
    for (int distance = 1; distance < world; ++distance) {
      const int to = (rank + distance) % world;
      const int from = (rank - distance + world) % world;
      result.send(to, kBucket, slice(count, world, to));
      result.receive(from, 1, slice(count, world, from));
    }
    return result;
  };
  return {world, count, world > 1 ? 1 : 0, 2, round};
}

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

Plan send_receive(int world, int64_t count, int from, int to) {
  const auto round = [=](int rank, int) {
    Round result;
    if (rank == from) result.send(to, kBucket, {0, count});
    if (rank == to) result.receive(from, kBucket, {0, count});
    return result;
  };
  return {world, count, from == to ? 0 : 1, 1, round};
}

}  // namespace lockstep::collective
