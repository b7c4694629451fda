#include "net/acceptor.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::net {
namespace {

constexpr size_t kMostPending = 256;
constexpr double kHandshakeSeconds = 2;
constexpr double kIdleSeconds = 3600;
constexpr double kPauseSeconds = 0.1;
constexpr int kAcceptedAtOnce = 256;
// At most this many lines are logged per window, however many connections are dropped.
constexpr int kLinesPerWindow = 5;
constexpr double kWindowSeconds = 5;

bool watch(int epoll, int descriptor) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace

Acceptor::Acceptor(Descriptor listener, std::string key, Expects expects, Log log)
    : listener_(std::move(listener)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      key_(std::move(key)),
      expects_(std::move(expects)),
      log_(std::move(log)) {
  if (!epoll_ || !watch(epoll_.get(), listener_.get()))
    throw Error(
        fmt::format("cannot wait for connections: {}; raise the limit of open files "
                    "(ulimit -n)",
                    std::strerror(errno)));
}

double Acceptor::seconds_to_next() const {
  const double handshake = pending_.empty() ? kIdleSeconds : pending_.front().deadline.left();
  return std::min(handshake, paused_ ? paused_until_.left() : kIdleSeconds);
}

std::vector<Acceptor::Connection> Acceptor::serve() {
  std::vector<Connection> accepted;
  if (paused_ && paused_until_.passed()) paused_ = !watch(epoll_.get(), listener_.get());
  std::array<epoll_event, kMostPending> events;
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const int descriptor = events[static_cast<size_t>(i)].data.fd;
    if (descriptor == listener_.get()) {
      accept_all();
      continue;
    }
    const auto found = by_descriptor_.find(descriptor);
    if (found == by_descriptor_.end()) continue;
    const auto pending = found->second;
    const HandshakeStatus status = pending->handshake.advance(descriptor);
    if (status == HandshakeStatus::failed) drop(pending, pending->handshake.error());
    if (status != HandshakeStatus::done) continue;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
    accepted.push_back({std::move(pending->socket), pending->handshake.identity()});
    by_descriptor_.erase(found);
    pending_.erase(pending);
  }
  drop_late();
  return accepted;
}

void Acceptor::accept_all() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    Descriptor socket = accept_from(listener_.get());
    if (!socket) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      const bool no_room =
          errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (no_room && !make_room()) return;
      continue;
    }
    if (pending_.size() >= kMostPending)
      drop(pending_.begin(), "was still in its handshake when too many others connected");
    if (!watch(epoll_.get(), socket.get())) continue;
    const int descriptor = socket.get();
    std::string address = remote_address(descriptor).text();
    pending_.push_back({std::move(socket), std::move(address), ServerHandshake(key_, expects_),
                        Deadline::in(kHandshakeSeconds)});
    const auto pending = std::prev(pending_.end());
    by_descriptor_[descriptor] = pending;
    if (pending->handshake.challenge(descriptor) == HandshakeStatus::failed)
      drop(pending, pending->handshake.error());
  }
}

// Frees a descriptor for the next connection. When there is none to drop, the listening socket is
// left out of the epoll set for a moment: it stays readable and would end every wait at once.
bool Acceptor::make_room() {
  if (!pending_.empty()) {
    drop(pending_.begin(), "was still in its handshake when no more files could be opened");
    return true;
  }
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
  paused_ = true;
  paused_until_ = Deadline::in(kPauseSeconds);
  return false;
}

void Acceptor::drop_late() {
  while (!pending_.empty() && pending_.front().deadline.passed())
    drop(pending_.begin(), pending_.front().handshake.error());
}

void Acceptor::drop(PendingList::iterator pending, const char* why) {
  ++dropped_;
  const char* const what =
      pending->handshake.refused() ? "refused a worker at" : "dropped a connection from";
  log(fmt::format("{} {}: it {}", what, pending->address, why));
  by_descriptor_.erase(pending->socket.get());
  pending_.erase(pending);
}

void Acceptor::log(const std::string& line) {
  if (log_window_ends_.passed()) {
    log_window_ends_ = Deadline::in(kWindowSeconds);
    lines_in_window_ = 0;
  }
  if (++lines_in_window_ > kLinesPerWindow) {
    ++lines_left_out_;
    return;
  }
  const int left_out = std::exchange(lines_left_out_, 0);
  const std::string text = left_out == 0 ? line : fmt::format("{} (and {} more)", line, left_out);
  if (log_)
    log_(text);
  else
    fmt::print(stderr, "lockstep: {}\n", text);
}

}  // namespace lockstep::net
