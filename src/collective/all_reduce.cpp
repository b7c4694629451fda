#include "collective/all_reduce.h"

#include <algorithm>
#include <utility>

#include "base/nearest.h"
#include "collective/halving_doubling.h"
#include "collective/order.h"
#include "lockstep/error.h"

namespace lockstep::collective {
namespace {

Range whole(int64_t count) {
  return {0, count};
}

// Slice `index` of `count` elements cut into `parts`, the first ones longer by one where it does
// not divide.
Range slice(int64_t count, int64_t parts, int64_t index) {
  const int64_t size = count / parts;
  const int64_t rest = count % parts;
  const int64_t begin = index * size + std::min(index, rest);
  return {begin, begin + size + (index < rest ? 1 : 0)};
}

void send(Round& round, int peer, Slot slot, Range range) {
  if (!range.empty()) round.sends.push_back({peer, slot, range});
}

void receive(Round& round, int peer, Slot slot, Range range) {
  if (!range.empty()) round.receives.push_back({peer, slot, range});
}

void fold(Round& round, Slot into, Slot from, Range range) {
  if (!range.empty()) round.folds.push_back({into, from, range});
}

// Folds leaves [begin, end), of which leaf i lies in slot_of(i), and returns the slot that then
// holds their sum: the bucket, if it is one of them.
template <typename SlotOf>
Slot fold_tree(Round& round, int64_t begin, int64_t end, Range range, const SlotOf& slot_of) {
  if (end - begin < 2) return slot_of(begin);
  const int64_t half = middle(begin, end);
  Slot into = fold_tree(round, begin, half, range, slot_of);
  Slot from = fold_tree(round, half, end, range, slot_of);
  if (from == kBucket) std::swap(into, from);
  fold(round, into, from, range);
  return into;
}

// Rank 0 receives rank k in round k-1 into slot k, and folds when it has all; then sends in turn.
Plan one_to_all(int world, int64_t count) {
  const auto round = [=](int rank, int index) {
    Round result;
    const bool collecting = index < world - 1;
    const int peer = collecting ? index + 1 : index - (world - 1) + 1;
    if (rank == 0 && collecting) {
      receive(result, peer, peer, whole(count));
      if (peer == world - 1)
        fold_tree(result, 0, world, whole(count),
                  [](int64_t leaf) { return static_cast<Slot>(leaf); });
    } else if (rank == 0) {
      send(result, peer, kBucket, whole(count));
    } else if (rank == peer && collecting) {
      send(result, 0, kBucket, whole(count));
    } else if (rank == peer) {
      receive(result, 0, kBucket, whole(count));
    }
    return result;
  };
  return {world, count, 2 * (world - 1), world, round};
}

// Up: the first rank of a node's right part sends to the first of its left part. Down: the reverse.
Plan tree(int world, int64_t count) {
  const int levels = depth(world);
  const auto round = [=](int rank, int index) {
    Round result;
    const bool up = index < levels;
    const auto found = find_node(world, rank, up ? index : 2 * levels - 1 - index);
    if (!found) return result;
    const Node node = *found;
    if (rank == node.begin && up) {
      receive(result, node.middle, 1, whole(count));
      fold(result, kBucket, 1, whole(count));
    } else if (rank == node.begin) {
      send(result, node.middle, kBucket, whole(count));
    } else if (rank == node.middle && up) {
      send(result, node.begin, kBucket, whole(count));
    } else if (rank == node.middle) {
      receive(result, node.begin, kBucket, whole(count));
    }
    return result;
  };
  return {world, count, 2 * levels, 2, round};
}

// At each node every rank gets the other part's sum from a rank of that part. Where the right part
// is smaller, its ranks serve several of the left's.
Plan butterfly(int world, int64_t count) {
  const int levels = depth(world);
  const auto round = [=](int rank, int index) {
    Round result;
    const auto found = find_node(world, rank, index);
    if (!found) return result;
    const Node node = *found;
    const int left = node.middle - node.begin;
    const int right = node.end - node.middle;
    if (rank < node.middle) {
      const int place = rank - node.begin;
      receive(result, node.middle + place % right, 1, whole(count));
      if (place < right) send(result, node.middle + place, kBucket, whole(count));
    } else {
      const int place = rank - node.middle;
      receive(result, node.begin + place, 1, whole(count));
      for (int other = place; other < left; other += right)
        send(result, node.begin + other, kBucket, whole(count));
    }
    fold(result, kBucket, 1, whole(count));
    return result;
  };
  return {world, count, levels, 2, round};
}

// Slices travel round the ring, growing by one rank's contribution at each stop; then once more.
Plan ring(int world, int64_t count) {
  const auto round = [=](int rank, int index) {
    Round result;
    const bool adding = index < world - 1;
    const int right = (rank + 1) % world;
    const int left = (rank + world - 1) % world;
    const int step = adding ? index : index - world;
    const auto slice_of = [&](int sender) {
      return slice(count, world, ((sender - step) % world + world) % world);
    };
    send(result, right, kBucket, slice_of(rank));
    receive(result, left, adding ? 1 : kBucket, slice_of(left));
    if (adding) fold(result, kBucket, 1, slice_of(left));
    return result;
  };
  return {world, count, 2 * (world - 1), 2, round};
}

// Rank r's own slice of everyone's bucket comes to slot k for each rank k, is folded along the tree
// and goes back to all.
Plan direct(int world, int64_t count) {
  const auto round = [=](int rank, int index) {
    Round result;
    const Range own = slice(count, world, rank);
    for (int peer = 0; peer < world; ++peer) {
      if (peer == rank) continue;
      const Range theirs = slice(count, world, peer);
      send(result, peer, kBucket, index == 0 ? theirs : own);
      receive(result, peer, index == 0 ? 1 + peer : kBucket, index == 0 ? own : theirs);
    }
    if (index != 0) return result;
    const auto slot_of = [&](int64_t leaf) {
      return leaf == rank ? kBucket : static_cast<Slot>(1 + leaf);
    };
    fold_tree(result, 0, world, own, slot_of);
    return result;
  };
  return {world, count, world > 1 ? 2 : 0, world + 1, round};
}

}  // namespace

const std::vector<std::string>& algorithm_names() {
  static const std::vector<std::string> names = {"one_to_all",       "tree",  "butterfly", "ring",
                                                 "halving_doubling", "direct"};
  return names;
}

Algorithm parse_algorithm(const std::string& name) {
  const auto& names = algorithm_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw BadInput("algorithm '{}': no such algorithm{}; there are: {}", name,
                   did_you_mean(name, names), fmt::join(names, ", "));
  return static_cast<Algorithm>(found - names.begin());
}

bool is_canonical(Algorithm algorithm) {
  return algorithm != Algorithm::ring;
}

Plan all_reduce(Algorithm algorithm, int world, int64_t count) {
  if (world < 1 || count < 0)
    throw BadInput("all_reduce of {} elements on {} ranks: expected at least 0 on at least 1",
                   count, world);
  switch (algorithm) {
    case Algorithm::one_to_all:
      return one_to_all(world, count);
    case Algorithm::tree:
      return tree(world, count);
    case Algorithm::butterfly:
      return butterfly(world, count);
    case Algorithm::ring:
      return ring(world, count);
    case Algorithm::halving_doubling:
      return halving_doubling(world, count);
    case Algorithm::direct:
      return direct(world, count);
  }
  throw Error("no such algorithm");
}

}  // namespace lockstep::collective
