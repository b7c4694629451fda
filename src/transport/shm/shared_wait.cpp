#include "transport/shm/shared_wait.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "transport/watched_wait.h"

namespace lockstep::transport {
namespace {

constexpr double kCheckSeconds = 0.1;

void futex_wait(std::atomic<uint32_t>& word, uint32_t value, double seconds) {
  const auto nanoseconds = static_cast<long>(seconds * 1e9);
  const timespec time{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool has_ended(int process) {
  pollfd poll_it{process, POLLIN, 0};
  return process >= 0 && poll(&poll_it, 1, 0) == 1;
}

}  // namespace

SharedWait::SharedWait(std::shared_ptr<SharedSegment> segment, double silence_seconds)
    : segment_(std::move(segment)),
      silence_seconds_(silence_seconds),
      heard_(static_cast<size_t>(segment_->world_size())),
      last_check_(Deadline::Clock::now()) {
  for (const Peer& peer : segment_->peers()) {
    const bool here = peer.pid == getpid();
    processes_.push_back(here ? -1 : static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
  }
  heart_ = std::thread([this] { beat(); });
}

SharedWait::~SharedWait() {
  segment_->pulse(segment_->rank()).left.store(1);
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  heart_.join();
  for (const int process : processes_)
    if (process >= 0) close(process);
}

void SharedWait::beat() {
  const MutexLock lock(mutex_);
  while (!stopping_) {
    segment_->pulse(segment_->rank()).beats.fetch_add(1);
    stop_.wait(mutex_, Deadline::in(std::min(0.25, silence_seconds_ / 8)));
  }
}

void SharedWait::ring(int rank) const {
  Bell& bell = segment_->bell(rank);
  bell.rings.fetch_add(1);
  futex_wake(bell.rings);
}

void SharedWait::sleep_until(const std::function<bool()>& ready,
                             const std::function<bool(int)>& late, Deadline deadline) {
  Bell& bell = segment_->bell(segment_->rank());
  WatchedWait wait(watch_);
  while (!ready()) {
    check(late);
    if (deadline.passed()) time_out(late);
    wait.look([&] { return late_ranks(late).ranks; });
    const uint32_t rings = bell.rings.load();
    bell.sleeping.store(1);
    if (!ready()) futex_wait(bell.rings, rings, std::min(kCheckSeconds, deadline.left()));
    bell.sleeping.store(0);
  }
}

void SharedWait::check(const std::function<bool(int)>& late) {
  check_last_words();
  check_processes(late);
  check_silence();
}

SharedWait::Late SharedWait::late_ranks(const std::function<bool(int)>& late) const {
  Late found;
  for (int rank = 0; rank < segment_->world_size(); ++rank) {
    if (rank == segment_->rank() || !late(rank)) continue;
    found.ranks.push_back(segment_->peer(rank).rank);
    found.names.push_back(segment_->peer(rank).text());
  }
  return found;
}

// Only this rank writes here, and others read again while it does.
void SharedWait::tell_whereabouts(const Whereabouts& mine) {
  WhereaboutsNote& note = segment_->whereabouts(segment_->rank());
  note.version.fetch_add(1);
  for (size_t i = 0; i < mine.label.words.size(); ++i) note.words[i].store(mine.label.words[i]);
  note.words.back().store(mine.collectives);
  note.version.fetch_add(1);
}

std::optional<Whereabouts> SharedWait::whereabouts_of(int rank) const {
  const WhereaboutsNote& note = segment_->whereabouts(rank);
  const uint64_t version = note.version.load();
  Whereabouts theirs;
  for (size_t i = 0; i < theirs.label.words.size(); ++i)
    theirs.label.words[i] = note.words[i].load();
  theirs.collectives = note.words.back().load();
  const bool complete = version > 0 && version % 2 == 0 && note.version.load() == version;
  return complete ? std::optional(theirs) : std::nullopt;
}

void SharedWait::time_out(const std::function<bool(int)>& late) const {
  const auto [ranks, names] = late_ranks(late);
  throw Timeout(ranks, fmt::format("rank {} timed out waiting for {}",
                                   segment_->peer(segment_->rank()).rank, fmt::join(names, ", ")));
}

void SharedWait::check_last_words() const {
  const LastWords& words = segment_->last_words();
  if (words.state.load() != 2) return;
  throw PeerLost(words.rank, std::string(words.text, strnlen(words.text, sizeof words.text)));
}

void SharedWait::check_processes(const std::function<bool(int)>& late) {
  for (int rank = 0; rank < segment_->world_size(); ++rank) {
    const bool left = segment_->pulse(rank).left.load() != 0;
    if (left && late(rank)) lose(rank, "closed its transport while other ranks still needed it");
    if (!left && has_ended(processes_[static_cast<size_t>(rank)])) lose(rank, "died");
  }
}

// Counts only time in which this process ran: a process that was itself stopped has seen no
// heartbeats.
void SharedWait::check_silence() {
  const auto now = Deadline::Clock::now();
  const double passed = std::chrono::duration<double>(now - last_check_).count();
  last_check_ = now;
  for (int rank = 0; rank < segment_->world_size(); ++rank) {
    const Pulse& pulse = segment_->pulse(rank);
    Heard& heard = heard_[static_cast<size_t>(rank)];
    const uint64_t beats = pulse.beats.load();
    const bool alive = std::exchange(heard.beats, beats) != beats;
    heard.silent = alive ? 0 : heard.silent + std::min(passed, 2 * kCheckSeconds);
    if (rank != segment_->rank() && heard.silent > silence_seconds_ && pulse.left.load() == 0)
      lose(rank,
           fmt::format("sent no heartbeat for {:.1f} s: its process is stopped, or its host hangs",
                       heard.silent));
  }
}

void SharedWait::lose(int rank, const std::string& how) const {
  const Peer& lost = segment_->peer(rank);
  const std::string why = fmt::format("{} {}", lost.text(), how);
  give_up(lost.rank, why);
  // Another rank may be writing the reason, which takes microseconds unless it is stopped or dies.
  const Deadline deadline = Deadline::in(kCheckSeconds);
  while (segment_->last_words().state.load() != 2 && !deadline.passed()) sched_yield();
  check_last_words();
  throw PeerLost(lost.rank, why);
}

void SharedWait::give_up(int culprit, const std::string& why) const noexcept {
  LastWords& words = segment_->last_words();
  uint32_t nobody = 0;
  if (!words.state.compare_exchange_strong(nobody, 1)) return;
  words.rank = culprit;
  const size_t length = std::min(why.size(), sizeof words.text - 1);
  std::memcpy(words.text, why.data(), length);
  words.text[length] = '\0';
  words.state.store(2);
  for (int other = 0; other < segment_->world_size(); ++other) ring(other);
}

}  // namespace lockstep::transport
