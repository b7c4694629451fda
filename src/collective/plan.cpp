#include "collective/plan.h"

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

std::vector<Range> used_ranges(const Plan& plan, int rank) {
  std::vector<Range> used(static_cast<size_t>(plan.slots));
  const auto use = [&](Slot slot, Range range) {
    Range& all = used[static_cast<size_t>(slot)];
    if (all.empty()) all = range;
    all = {std::min(all.begin, range.begin), std::max(all.end, range.end)};
  };
  for (int index = 0; index < plan.rounds; ++index) {
    const Round round = plan.round(rank, index);
    for (const Send& send : round.sends) use(send.slot, send.range);
    for (const Receive& receive : round.receives) use(receive.slot, receive.range);
    for (const Fold& fold : round.folds) {
      use(fold.into, fold.range);
      use(fold.from, fold.range);
    }
  }
  return used;
}

}  // namespace lockstep::collective
