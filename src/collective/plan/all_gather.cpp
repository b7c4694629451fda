// All-gather by Bruck's scheme, for any number of ranks.
//
// Ranks stand in a circle, in the order in which their shares begin; a rank's *place* counts from
// 0. Before round k, the rank at place p has the shares of places p .. p + 2^k - 1 (counted round,
// and at most all). It passes them on to place p - 2^k and gets as many from place p + 2^k, or just
// those that are still missing; so over all rounds a rank sends as much as it gets: everything but
// one share. What neighbours in the circle have often touches in the bucket, and travels as one.
#include "collective/plan/all_gather.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "base/range.h"
#include "collective/plan/order.h"

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

  // All that `many` places from `first` on have, as few ranges as can be.
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

}  // namespace lockstep::collective
