#include "transport/tcp/heart.h"

#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "lockstep/error.h"

namespace lockstep::transport {
namespace {

constexpr double kLongestBeat = 1;
// A process that dies closes its data and control connections at the same time: how long to wait
// until the thread has seen both.
constexpr double kVerdictSeconds = 0.5;

net::Descriptor event() {
  net::Descriptor made(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made)
    throw Error(fmt::format("cannot make an eventfd: {}; raise the limit of open files (ulimit -n)",
                            std::strerror(errno)));
  return made;
}

void signal_event(const net::Descriptor& event) {
  eventfd_write(event.get(), 1);
}

// Signals are delivered to the program's own threads.
std::thread start_without_signals(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

std::string frame(ControlKind kind) {
  return encode(ControlHeader{.kind = kind});
}

}  // namespace

Heart::Heart(int rank, const std::vector<Peer>& peers, std::vector<net::Descriptor> controls,
             double silence_seconds)
    : rank_(rank),
      peers_(peers),
      silence_seconds_(silence_seconds),
      beat_seconds_(std::min(silence_seconds / 10, kLongestBeat)),
      alarm_(event()),
      stop_(event()),
      left_(peers.size()),
      whereabouts_(peers.size()) {
  for (size_t peer = 0; peer < controls.size(); ++peer)
    if (controls[peer]) lines_.push_back({static_cast<int>(peer), std::move(controls[peer])});
  if (!lines_.empty()) thread_ = start_without_signals([this] { run(); });
}

Heart::~Heart() {
  if (!thread_.joinable()) return;
  signal_event(stop_);
  thread_.join();
  // A rank that leaves because of a loss names the lost rank; otherwise others would report this
  // rank as lost.
  if (loss_)
    give_up(loss_->what(), loss_->rank());
  else if (!gave_up_)
    send_to_all(frame(ControlKind::goodbye));
  // Closing with unread data would discard what was just sent.
  std::array<std::byte, 4096> unread;
  for (const PeerLine& line : lines_)
    while (net::receive_some(line.socket.get(), unread).bytes > 0) continue;
}

void Heart::run() {
  Stopwatch since_pass;
  Deadline next_beat = Deadline::in(0);
  pollfd stop = {.fd = stop_.get(), .events = POLLIN};
  while (poll(&stop, 1, 0) == 0) {
    if (next_beat.passed()) {
      send_to_all(frame(ControlKind::heartbeat));
      next_beat = Deadline::in(beat_seconds_);
    }
    listen_once(next_beat.left());
    // Time in which this process was stopped does not count: heartbeats may have arrived meanwhile.
    count_silence(std::min(since_pass.restart(), 2 * beat_seconds_));
  }
}

void Heart::listen_once(double seconds) {
  std::vector<pollfd> waits = {{.fd = stop_.get(), .events = POLLIN}};
  for (const PeerLine& line : lines_)
    waits.push_back({.fd = line.open ? line.socket.get() : -1, .events = POLLIN});
  net::wait_for(waits, seconds);
  std::vector<Notice> notices;
  for (size_t i = 0; i < lines_.size(); ++i)
    if (waits[i + 1].revents != 0) hear(lines_[i], notices);
  // A peer may abort because of a loss that is also seen here: report the loss itself first.
  for (const Notice& notice : notices) record(notice.culprit, notice.text);
}

void Heart::hear(PeerLine& line, std::vector<Notice>& notices) {
  std::array<std::byte, 4096> piece;
  while (line.open) {
    const net::Moved moved = net::receive_some(line.socket.get(), piece);
    if (moved.bytes > 0) {
      line.silent = 0;
      line.heard = true;
      line.arrived.append(reinterpret_cast<const char*>(piece.data()), moved.bytes);
      parse(line, notices);
      continue;
    }
    if (!moved.closed) return;
    line.open = false;
    lose(line.peer, moved.error == 0 ? "is gone: it closed its connections without a goodbye"
                                     : fmt::format("is gone: its connection broke ({})",
                                                   std::strerror(moved.error)));
  }
}

void Heart::parse(PeerLine& line, std::vector<Notice>& notices) {
  size_t used = 0;
  while (line.open && line.arrived.size() - used >= kControlHeaderBytes) {
    const net::Bytes rest = std::as_bytes(std::span(line.arrived)).subspan(used);
    const std::optional<ControlHeader> header =
        parse_control_header(rest.first(kControlHeaderBytes));
    if (!header) {
      line.open = false;
      lose(line.peer, "sent an invalid control frame");
      return;
    }
    if (rest.size() < kControlHeaderBytes + header->bytes) break;
    const std::string payload = line.arrived.substr(used + kControlHeaderBytes, header->bytes);
    used += kControlHeaderBytes + header->bytes;
    if (header->kind == ControlKind::heartbeat) continue;
    if (header->kind == ControlKind::waits) {
      const MutexLock lock(mutex_);
      whereabouts_[static_cast<size_t>(line.peer)] =
          parse_whereabouts(std::as_bytes(std::span(payload)));
      continue;
    }
    line.open = false;
    if (header->kind == ControlKind::gave_up) {
      const bool known = header->culprit < peers_.size();
      notices.push_back({known ? static_cast<int>(header->culprit) : line.peer,
                         fmt::format("{} aborted: {}", peer(line.peer).text(), payload)});
    } else {
      const MutexLock lock(mutex_);
      left_[static_cast<size_t>(line.peer)] = true;
      changed_.notify_all();
    }
  }
  line.arrived.erase(0, used);
}

void Heart::count_silence(double seconds) {
  for (PeerLine& line : lines_) {
    if (!line.open) continue;
    if (std::exchange(line.heard, false)) continue;  // and not silent before, in this pass
    line.silent += seconds;
    if (line.silent <= silence_seconds_) continue;
    line.open = false;
    lose(line.peer, fmt::format("sent no heartbeat for {:.1f} s; check whether its process is "
                                "stopped or its host is down",
                                line.silent));
  }
}

// Frames are small and rare: one that does not fit into a socket's buffer is for a peer that has
// not read for minutes, whose heartbeat timeout is detected elsewhere.
void Heart::send_to_all(const std::string& text) {
  const MutexLock lock(sending_);
  for (const PeerLine& line : lines_)
    net::send_some(line.socket.get(), std::as_bytes(std::span(text)));
}

void Heart::tell_whereabouts(const Whereabouts& mine) {
  send_to_all(encode(ControlHeader{.kind = ControlKind::waits, .bytes = kWhereaboutsBytes}) +
              encode(mine));
}

std::optional<Whereabouts> Heart::whereabouts_of(int rank) {
  const MutexLock lock(mutex_);
  return whereabouts_[static_cast<size_t>(rank)];
}

void Heart::lose(int rank, const std::string& how) {
  record(rank, fmt::format("{} {}", peer(rank).text(), how));
}

void Heart::record(int rank, const std::string& message) {
  const MutexLock lock(mutex_);
  if (loss_) return;
  loss_ = PeerLost(peer(rank).rank, message);
  culprit_ = rank;
  troubled_.store(true, std::memory_order_release);
  signal_event(alarm_);
  changed_.notify_all();
}

void Heart::raise_loss() {
  const MutexLock lock(mutex_);
  throw PeerLost(*loss_);
}

std::string Heart::finished(int rank) const {
  return fmt::format(
      "{} has finished, but rank {} still expects messages from it; all ranks must do the same "
      "number of steps",
      peer(rank).text(), peer(rank_).rank);
}

void Heart::check_present(int rank) {
  const MutexLock lock(mutex_);
  if (left_[static_cast<size_t>(rank)]) throw PeerLost(peer(rank).rank, finished(rank));
}

void Heart::raise_broken(int rank) {
  MutexLock lock(mutex_);
  const Deadline verdict = Deadline::in(kVerdictSeconds);
  while (!loss_ && !left_[static_cast<size_t>(rank)])
    if (!changed_.wait(mutex_, verdict)) break;
  if (loss_) throw PeerLost(*loss_);
  if (left_[static_cast<size_t>(rank)]) throw PeerLost(peer(rank).rank, finished(rank));
  lock.unlock();
  lose(rank, "is gone: its data connection broke");
  raise_loss();
}

void Heart::give_up(const std::string& why, int culprit) {
  const auto found =
      std::find_if(peers_.begin(), peers_.end(), [&](const Peer& p) { return p.rank == culprit; });
  auto named = static_cast<uint32_t>(found == peers_.end() ? rank_ : found - peers_.begin());
  {
    const MutexLock lock(mutex_);
    if (gave_up_) return;
    gave_up_ = true;
    if (loss_) named = static_cast<uint32_t>(culprit_);
  }
  const std::string reason = why.substr(0, kLongestReason);
  send_to_all(encode(ControlHeader{.kind = ControlKind::gave_up,
                                   .culprit = named,
                                   .bytes = static_cast<uint32_t>(reason.size())}) +
              reason);
  record(static_cast<int>(named), fmt::format("{} aborted: {}", peer(rank_).text(), why));
}

}  // namespace lockstep::transport
