#include "collective/plan/plan.h"

#include <algorithm>
#include <utility>

namespace lockstep::collective {

void Round::send(int peer, Slot slot, Range range) {
  if (!range.empty()) sends.push_back({peer, slot, range});
}

void Round::receive(int peer, Slot slot, Range range) {
  if (!range.empty()) receives.push_back({peer, slot, range});
}

void Round::fold(Slot into, Slot from, Range range) {
  if (!range.empty()) folds.push_back({into, from, range});
}

void Round::finish(Range range) {
  if (!range.empty()) finished.push_back(range);
}

Plan sequence(Plan first, Plan second) {
  if (first.rounds == 0) {
    second.slots = std::max(first.slots, second.slots);
    return second;
  }
  const int rounds = first.rounds + second.rounds;
  const int slots = std::max(first.slots, second.slots);
  const auto round = [a = std::move(first.round), b = std::move(second.round),
                      before = first.rounds](int rank, int index) {
    return index < before ? a(rank, index) : b(rank, index - before);
  };
  return {first.world, first.count, rounds, slots, round};
}

}  // namespace lockstep::collective
