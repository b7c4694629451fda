#pragma once

#include <memory>
#include <span>

#include "transport/shm/shared_segment.h"
#include "transport/shm/shared_wait.h"

namespace lockstep::transport {

/// Lets ranks work directly on each other's shared memory, without messages: each rank announces
/// where its data is, and when all have, each may read and write the data of all, as the collective
/// prescribes.
///
///     board.enter(label, offsets);             // where my data is
///     board.await_all_entered(deadline);       // all ranks have announced theirs
///     ... board.term(rank, 0) ...
///     board.leave();                           // this rank is done with other ranks' data
///     board.await_all_left(deadline);          // all other ranks are done with this rank's data
///
/// Data in mailboxes need no `leave`: a rank has two, used alternately, and when all ranks have
/// entered the next collective, no rank reads the mailbox of the previous one.
class SharedBoard {
 public:
  SharedBoard(std::shared_ptr<SharedSegment> segment, SharedWait& wait)
      : segment_(std::move(segment)), wait_(wait) {}

  int rank() const { return segment_->rank(); }
  int world_size() const { return segment_->world_size(); }

  /// Where this rank may write data before it enters the next collective.
  std::byte* next_mailbox() const { return segment_->mailbox(rank(), sequence_ + 1); }

  void enter(const Label& label, std::span<const uint64_t> offsets);
  void enter_with_mailbox(const Label& label, uint32_t terms);

  /// Throws Disagreement if a rank entered with another label.
  void await_all_entered(Deadline deadline);

  /// The label of the next collective, if `other` has entered it already; else nullptr.
  const Label* entered_next(int other) const;

  const Notice& notice(int rank) const { return segment_->notice(rank, sequence_); }
  std::byte* term(int rank, size_t index) const {
    return segment_->address(rank, notice(rank).offsets[index]);
  }
  std::byte* mailbox(int rank) const { return segment_->mailbox(rank, sequence_); }

  void leave();
  void await_all_left(Deadline deadline);

  std::optional<uint64_t> offset_of(const void* data) const { return segment_->offset_of(data); }

 private:
  void announce(Notice& notice);
  const Parcel* parcel_from(int other) const;

  const std::shared_ptr<SharedSegment> segment_;
  SharedWait& wait_;
  uint64_t sequence_ = 0;
};

}  // namespace lockstep::transport
