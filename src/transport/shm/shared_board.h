#pragma once

#include <memory>
#include <span>

#include "transport/shm/shared_segment.h"
#include "transport/shm/shared_wait.h"

namespace lockstep::transport {

/// Lets ranks that see each other's memory work on it directly, without messages: each announces
/// where its data lies, and when all have, each may read and write everyone's, as the ranks agreed.
///
///     board.enter(label, offsets);             // my data lies there
///     board.await_all_entered(deadline);       // so does everyone's
///     ... board.term(rank, 0) ...
///     board.leave();                           // I am done with other ranks' data
///     board.await_all_left(deadline);          // they are done with mine
///
/// Data in mailboxes need no leaving: a rank has two, used in turn, and when all have entered the
/// next collective nobody reads the mailbox of the one before any more.
class SharedBoard {
 public:
  SharedBoard(std::shared_ptr<SharedSegment> segment, SharedWait& wait)
      : segment_(std::move(segment)), wait_(wait) {}

  int rank() const { return segment_->rank(); }
  int world_size() const { return segment_->world_size(); }

  /// Where this rank may put data before it enters the next collective.
  std::byte* next_mailbox() const { return segment_->mailbox(rank(), sequence_ + 1); }

  void enter(const Label& label, std::span<const uint64_t> offsets);
  void enter_with_mailbox(const Label& label, uint32_t terms);

  /// Throws Disagreement where a rank entered with another label.
  void await_all_entered(Deadline deadline);

  /// Whether `other` has entered a collective that this one has not: that one's label.
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
