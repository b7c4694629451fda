#include "collective/shared_direct.h"

#include <algorithm>
#include <cstring>

#include "base/range.h"
#include "collective/fold/fold.h"

namespace lockstep::collective {
namespace {

// Above this, waiting twice costs less than every rank reading all terms.
constexpr size_t kMostThroughMailboxes = size_t{4} * 1024;

struct Bytes {
  size_t begin;
  size_t end;
};

// Slices end at cache lines, so that no two ranks write to the same one.
Bytes slice_of(size_t bytes, int world, int rank) {
  const size_t lines = (bytes + transport::kCacheLine - 1) / transport::kCacheLine;
  const auto cut = [&](int at) {
    return std::min(bytes, lines * static_cast<size_t>(at) / static_cast<size_t>(world) *
                               transport::kCacheLine);
  };
  return {cut(rank), cut(rank + 1)};
}

Bytes slice_of(const SharedDirect::Reduction& reduction, int world, int rank) {
  const size_t element = bytes_of(reduction.type);
  if (reduction.results == SharedDirect::Results::of_all)
    return slice_of(static_cast<size_t>(reduction.count) * element, world, rank);
  const Range own = slice(reduction.count, world, rank);
  return {static_cast<size_t>(own.begin) * element, static_cast<size_t>(own.end) * element};
}

}  // namespace

int64_t SharedDirect::reduce(const transport::Label& label, const Reduction& reduction,
                             transport::Transport& transport, Deadline deadline) {
  const size_t bytes = static_cast<size_t>(reduction.count) * bytes_of(reduction.type);
  const size_t terms =
      std::max(reduction.all_widths.size(), static_cast<size_t>(board_.world_size()));
  if (bytes * terms <= kMostThroughMailboxes) return through_mailboxes(label, reduction, deadline);
  Reduction shared = reduction;
  shared.terms = shared_terms(reduction, transport);
  const int64_t sent = in_place(label, shared, deadline);
  if (shared.terms[0] == reduction.terms[0]) return sent;
  const auto [begin, end] = reduction.results == Results::of_all
                                ? Bytes{0, bytes}
                                : slice_of(reduction, board_.world_size(), board_.rank());
  std::memcpy(reduction.terms[0] + begin, shared.terms[0] + begin, end - begin);
  return sent;
}

std::span<std::byte* const> SharedDirect::shared_terms(const Reduction& reduction,
                                                       transport::Transport& transport) {
  const bool all_shared =
      std::all_of(reduction.terms.begin(), reduction.terms.end(),
                  [&](const std::byte* term) { return board_.offset_of(term).has_value(); });
  if (all_shared) return reduction.terms;
  const size_t bytes = static_cast<size_t>(reduction.count) * bytes_of(reduction.type);
  const size_t stride =
      (bytes + transport::kCacheLine - 1) / transport::kCacheLine * transport::kCacheLine;
  make_room(stride * reduction.terms.size(), transport);
  copy_terms_.clear();
  for (std::byte* const term : reduction.terms) {
    copy_terms_.push_back(copies_.data.get() + stride * copy_terms_.size());
    std::memcpy(copy_terms_.back(), term, bytes);
  }
  return copy_terms_;
}

void SharedDirect::make_room(size_t bytes, transport::Transport& transport) {
  if (copies_.bytes >= bytes) return;
  copies_ = {};
  copies_ = transport.allocate(bytes);
}

int64_t SharedDirect::gather(const transport::Label& label, std::byte* buffer, int64_t count,
                             Type type, transport::Transport& transport, Deadline deadline) {
  const auto slice_at = [&](int rank) {
    const Range range = slice(count, board_.world_size(), rank);
    return Bytes{static_cast<size_t>(range.begin) * bytes_of(type),
                 static_cast<size_t>(range.end) * bytes_of(type)};
  };
  const Bytes own = slice_at(board_.rank());
  std::byte* shared = buffer;
  if (!board_.offset_of(buffer)) {
    make_room(static_cast<size_t>(count) * bytes_of(type), transport);
    shared = copies_.data.get();
    if (own.end > own.begin)
      std::memcpy(shared + own.begin, buffer + own.begin, own.end - own.begin);
  }
  offsets_.assign(1, board_.offset_of(shared).value_or(0));
  board_.enter(label, offsets_);
  board_.await_all_entered(deadline);
  for (int rank = 0; rank < board_.world_size(); ++rank) {
    const Bytes of = slice_at(rank);
    if (rank != board_.rank() && of.end > of.begin)
      std::memcpy(buffer + of.begin, board_.term(rank, 0) + of.begin, of.end - of.begin);
  }
  board_.leave();
  board_.await_all_left(deadline);
  return static_cast<int64_t>(own.end - own.begin) * (board_.world_size() - 1);
}

int64_t SharedDirect::through_mailboxes(const transport::Label& label, const Reduction& reduction,
                                        Deadline deadline) {
  const size_t bytes = static_cast<size_t>(reduction.count) * bytes_of(reduction.type);
  std::byte* place = board_.next_mailbox();
  for (const std::byte* const term : reduction.terms) {
    if (bytes > 0) std::memcpy(place, term, bytes);
    place += bytes;
  }
  board_.enter_with_mailbox(label, static_cast<uint32_t>(reduction.terms.size()));
  board_.await_all_entered(deadline);
  terms_.clear();
  for (int rank = 0; rank < board_.world_size(); ++rank)
    for (uint32_t i = 0; i < board_.notice(rank).terms; ++i)
      terms_.push_back(board_.mailbox(rank) + i * bytes);
  results_.assign(1, reduction.terms[0]);
  fold_tree({terms_, reduction.all_widths, results_, bytes, reduction.type, reduction.operation,
             reduction.divide_by});
  return static_cast<int64_t>(reduction.terms.size() * bytes) * (board_.world_size() - 1);
}

int64_t SharedDirect::in_place(const transport::Label& label, const Reduction& reduction,
                               Deadline deadline) {
  offsets_.clear();
  for (const std::byte* const term : reduction.terms) offsets_.push_back(*board_.offset_of(term));
  board_.enter(label, offsets_);
  board_.await_all_entered(deadline);
  const auto [begin, end] = slice_of(reduction, board_.world_size(), board_.rank());
  terms_.clear();
  results_.clear();
  for (int rank = 0; rank < board_.world_size(); ++rank) {
    for (uint32_t i = 0; i < board_.notice(rank).terms; ++i)
      terms_.push_back(board_.term(rank, i) + begin);
    if (reduction.results == Results::of_all || rank == board_.rank())
      results_.push_back(board_.term(rank, 0) + begin);
  }
  fold_tree({terms_, reduction.all_widths, results_, end - begin, reduction.type,
             reduction.operation, reduction.divide_by});
  board_.leave();
  board_.await_all_left(deadline);
  const size_t bytes = static_cast<size_t>(reduction.count) * bytes_of(reduction.type);
  const size_t own = end - begin;
  return static_cast<int64_t>(reduction.terms.size() * (bytes - own) + (results_.size() - 1) * own);
}

}  // namespace lockstep::collective
