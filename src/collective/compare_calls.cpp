// What a communicator does in a wait that lasts: it logs for whom it waits, and finds out whether
// ranks wait for each other in different collectives.
#include <fmt/ranges.h>

#include <algorithm>

#include "collective/communicator.h"

namespace lockstep::collective {

// Functions that all ranks must call, such as Pipeline::forward, send messages, too.
constexpr const char* kMessageAdvice =
    "; messages are sent in the order of calls: did all ranks call the same function (of a "
    "Pipeline, or ShardedOptimizer::save_to)? If every rank sends first, use exchange";

void Communicator::look_at(const transport::LongWait& wait) {
  if (options_.stall_seconds > 0 && wait.reaches(options_.stall_seconds))
    options_.tell_stall(
        fmt::format("rank {} has waited {:g} s for rank{} {} in {}{}",
                    transport_->peers()[static_cast<size_t>(rank())].rank, options_.stall_seconds,
                    wait.late.size() == 1 ? "" : "s", fmt::join(wait.late, ", "), what_is_running(),
                    call_.collective == Collective::send_receive ? kMessageAdvice : ""));
  if (wait.seconds < options_.compare_seconds) return;
  if (wait.reaches(options_.compare_seconds))
    transport_->tell_whereabouts({label_of(call_), sequence_});
  compare_whereabouts(wait.late);
}

// A message with another label than expected is found when it arrives. But ranks that call
// different collectives may also wait for each other while none of them sends anything.
void Communicator::compare_whereabouts(const std::vector<int>& late) {
  for (int peer = 0; peer < world_size(); ++peer) {
    if (peer == rank()) continue;
    const std::optional<transport::Whereabouts> theirs = transport_->whereabouts_of(peer);
    if (!theirs) continue;
    const std::optional<Call> mine = contradicted_by(*theirs, peer, late);
    if (mine && same_call(label_of(*mine), label_of(call_)))
      disagree(what_is_running(), peer, theirs->label);
    if (mine) disagree(describe(label_of(*mine)), peer, theirs->label);
  }
}

// This rank's call that cannot be reconciled with what the other rank is in. A rank may be ahead of
// others, and what it told may be old; but collectives with one number must be the same everywhere.
std::optional<Call> Communicator::contradicted_by(const transport::Whereabouts& theirs, int peer,
                                                  const std::vector<int>& late) const {
  if (is_exchange(theirs.label)) return std::nullopt;
  const uint64_t number = theirs.label.words[0];
  const auto ends = message_ends(theirs.label);
  if (ends && (ends->from == peer ? ends->to : ends->from) != rank()) return std::nullopt;
  const Call& mine = ends ? messages_[static_cast<size_t>(peer)] : calls_[number % calls_.size()];
  if (mine.number == number)
    return same_call(label_of(mine), theirs.label) ? std::nullopt : std::optional(mine);
  // It waits for a message that this rank has not begun to send or receive, and this rank waits for
  // it in a collective that it has not called.
  const int name = transport_->peers()[static_cast<size_t>(peer)].rank;
  const bool awaited = std::find(late.begin(), late.end(), name) != late.end();
  const bool in_collective = call_.collective != Collective::send_receive;
  if (ends && number > mine.number && in_collective && awaited && theirs.collectives < call_.number)
    return call_;
  return std::nullopt;
}

void Communicator::disagree(const std::string& mine, int peer,
                            const transport::Label& theirs) const {
  const auto& peers = transport_->peers();
  throw Mismatch("ranks disagree: {} is in {}, {} in {}", peers[static_cast<size_t>(rank())].text(),
                 mine, peers[static_cast<size_t>(peer)].text(), describe(theirs));
}

}  // namespace lockstep::collective
