#include "collective/program.h"

#include <algorithm>

#include "collective/fold/fold.h"
#include "transport/device.h"

namespace lockstep::collective {
namespace {

bool overlap(Slot a, Range ranges_a, Slot b, Range range_b) {
  return a == b && ranges_a.begin < range_b.end && range_b.begin < ranges_a.end;
}

bool touches(const SlotFold& fold, Slot slot, Range range) {
  return overlap(fold.into, fold.range, slot, range) || overlap(fold.from, fold.range, slot, range);
}

// The fold that may be done while the message arrives, if there is one: nothing else in the round
// reads or writes the two ranges that it touches.
const SlotFold* fold_of(const Receive& receive, const Round& round) {
  const SlotFold* found = nullptr;
  for (const SlotFold& fold : round.folds)
    if (fold.from == receive.slot && fold.range == receive.range) found = &fold;
  if (found == nullptr) return nullptr;
  const bool shared =
      std::any_of(round.folds.begin(), round.folds.end(), [&](const SlotFold& other) {
        return &other != found && (touches(other, found->into, found->range) ||
                                   touches(other, found->from, found->range));
      });
  const bool sent = std::any_of(round.sends.begin(), round.sends.end(), [&](const Send& send) {
    return overlap(send.slot, send.range, found->into, found->range);
  });
  const bool overwritten =
      std::any_of(round.receives.begin(), round.receives.end(), [&](const Receive& other) {
        return overlap(other.slot, other.range, found->into, found->range);
      });
  return shared || sent || overwritten ? nullptr : found;
}

Program::RankRound rank_round_of(const Round& round, Folding folding) {
  Program::RankRound result{.sends = round.sends, .finished = round.finished};
  std::vector<const SlotFold*> done;
  for (const Receive& receive : round.receives) {
    const SlotFold* const fold =
        folding == Folding::while_arriving ? fold_of(receive, round) : nullptr;
    if (fold != nullptr) done.push_back(fold);
    result.arrivals.push_back(
        {{receive.peer, fold != nullptr ? fold->into : receive.slot, receive.range},
         fold != nullptr});
  }
  for (const SlotFold& fold : round.folds)
    if (std::find(done.begin(), done.end(), &fold) == done.end()) result.folds.push_back(fold);
  return result;
}

}  // namespace

Program::Program(const Plan& plan, int rank, Folding folding)
    : count_(plan.count), used_(static_cast<size_t>(plan.slots)) {
  const auto use = [&](Slot slot) { used_[static_cast<size_t>(slot)] = true; };
  use(kBucket);
  for (int index = 0; index < plan.rounds; ++index) {
    rounds_.push_back(rank_round_of(plan.round(rank, index), folding));
    for (const Send& send : rounds_.back().sends) use(send.slot);
    for (const Arrival& arrival : rounds_.back().arrivals) use(arrival.receive.slot);
    for (const SlotFold& fold : rounds_.back().folds) {
      use(fold.into);
      use(fold.from);
    }
  }
}

int64_t Program::sent() const {
  int64_t elements = 0;
  for (const RankRound& round : rounds_)
    for (const Send& send : round.sends) elements += send.range.size();
  return elements;
}

void run(const Program& program, const Work& work, transport::Transport& transport,
         transport::Label label, Deadline deadline) {
  const size_t element = bytes_of(work.type);
  transport::DeviceSide* const device = transport.device();
  transport::Arithmetic& arithmetic = device != nullptr ? device->arithmetic() : host_arithmetic();
  const transport::Combine combine = combiner(work.type, work.operation);
  const auto place = [&](Slot slot, Range range) {
    return work.slots[static_cast<size_t>(slot)] + static_cast<size_t>(range.begin) * element;
  };
  const auto size = [&](Range range) { return static_cast<size_t>(range.size()) * element; };

  std::vector<transport::Outgoing> outgoing;
  std::vector<transport::Incoming> incoming;
  for (const Program::RankRound& round : program.rounds()) {
    outgoing.clear();
    incoming.clear();
    for (const Send& send : round.sends)
      outgoing.push_back({send.peer, place(send.slot, send.range), size(send.range)});
    for (const auto& [receive, folds] : round.arrivals)
      incoming.push_back({receive.peer, place(receive.slot, receive.range), size(receive.range),
                          folds ? combine : nullptr});
    if (!outgoing.empty() || !incoming.empty())
      transport.exchange(label, outgoing, incoming, deadline);
    for (const SlotFold& fold : round.folds)
      arithmetic.combine(place(fold.into, fold.range), place(fold.from, fold.range),
                         size(fold.range), work.type, work.operation);
    if (work.divide_by != 1)
      for (const Range& range : round.finished)
        arithmetic.divide(place(kBucket, range), size(range), work.type, work.divide_by);
    ++label.words.back();
  }
}

}  // namespace lockstep::collective
