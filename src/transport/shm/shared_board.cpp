#include "transport/shm/shared_board.h"

#include <algorithm>

namespace lockstep::transport {

void SharedBoard::enter(const Label& label, std::span<const uint64_t> offsets) {
  Notice& notice = segment_->notice(rank(), ++sequence_);
  notice.label = label;
  notice.terms = static_cast<uint32_t>(offsets.size());
  std::copy(offsets.begin(), offsets.end(), notice.offsets);
  announce(notice);
}

void SharedBoard::enter_with_mailbox(const Label& label, uint32_t terms) {
  Notice& notice = segment_->notice(rank(), ++sequence_);
  notice.label = label;
  notice.terms = terms;
  announce(notice);
}

void SharedBoard::announce(Notice& notice) {
  notice.sequence.store(sequence_);
  for (int other = 0; other < world_size(); ++other) wait_.wake(other);
}

void SharedBoard::await_all_entered(Deadline deadline) {
  const auto late = [&](int other) {
    return segment_->notice(other, sequence_).sequence.load() != sequence_;
  };
  const Label& mine = notice(rank()).label;
  for (int other = 0; other < world_size(); ++other) {
    if (other == rank()) continue;
    const auto elsewhere = [&] { return parcel_from(other) != nullptr && late(other); };
    wait_.until([&] { return !late(other) || elsewhere(); }, late, deadline);
    if (elsewhere())
      throw Disagreement(other, parcel_from(other)->label, parcel_from(other)->bytes,
                         "a rank sends messages while others use shared memory");
    const Notice& theirs = notice(other);
    if (theirs.label != mine)
      throw Disagreement(other, theirs.label, 0, "ranks are in different collectives");
  }
}

// All messages of earlier collectives have been received. So a message from a rank that has not
// entered this collective belongs to another collective.
const Parcel* SharedBoard::parcel_from(int other) const {
  const Queue& queue = segment_->queue(other, rank());
  const uint64_t place = queue.taken.load();
  return queue.posted.load() == place ? nullptr : &queue.parcels[place % kQueueLength];
}

const Label* SharedBoard::entered_next(int other) const {
  const Notice& next = segment_->notice(other, sequence_ + 1);
  return next.sequence.load() == sequence_ + 1 ? &next.label : nullptr;
}

void SharedBoard::leave() {
  segment_->finish(rank()).sequence.store(sequence_);
  for (int other = 0; other < world_size(); ++other) wait_.wake(other);
}

void SharedBoard::await_all_left(Deadline deadline) {
  const auto late = [&](int other) { return segment_->finish(other).sequence.load() < sequence_; };
  for (int other = 0; other < world_size(); ++other)
    if (other != rank()) wait_.until([&] { return !late(other); }, late, deadline);
}

}  // namespace lockstep::transport
