#include "net/dial.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::net {
namespace {

constexpr double kFirstPause = 0.01;
constexpr double kLongestPause = 0.5;
constexpr double kFirstAttempt = 1;
constexpr double kLongestAttempt = 30;
// Longer than an acceptor waits, so that it is the acceptor that decides.
constexpr double kServerSeconds = 4;

}  // namespace

Dial::Dial(std::vector<std::string> hosts, std::vector<uint16_t> ports, std::string key,
           const Identity& identity, WhenRefused when_refused)
    : hosts_(std::move(hosts)),
      ports_(std::move(ports)),
      key_(std::move(key)),
      identity_(identity),
      when_refused_(when_refused),
      pause_seconds_(kFirstPause),
      attempt_seconds_(kFirstAttempt) {}

pollfd Dial::waits_for() const {
  if (state_ == State::connecting) return {.fd = socket_.get(), .events = POLLOUT};
  if (state_ == State::handshaking) return {.fd = socket_.get(), .events = POLLIN};
  return {.fd = -1};
}

bool Dial::advance() {
  bool moved = true;
  while (moved && state_ != State::done) {
    if (state_ == State::pausing)
      moved = wake_.passed() && dial_next();
    else if (state_ == State::connecting)
      moved = finish_connecting();
    else
      moved = advance_handshake();
  }
  return state_ == State::done;
}

bool Dial::dial_next() {
  if (next_ == addresses_.size()) {
    addresses_.clear();
    next_ = 0;
    for (const uint16_t port : ports_)
      for (const std::string& host : hosts_) {
        const std::vector<Address> found = resolve(host, port);
        addresses_.insert(addresses_.end(), found.begin(), found.end());
      }
    if (addresses_.empty()) return fail("the name service does not answer");
  }
  socket_ = start_connecting(addresses_[next_]);
  if (!socket_) return fail(std::strerror(errno));
  state_ = State::connecting;
  wake_ = Deadline::in(attempt_seconds_);
  return true;
}

bool Dial::finish_connecting() {
  pollfd ready = waits_for();
  if (poll(&ready, 1, 0) == 0) return wake_.passed() && fail("no answer");
  if (const int error = connecting_error(socket_.get())) return fail(std::strerror(error));
  // The kernel may connect a socket to itself when it dials a free port of its own machine.
  if (local_address(socket_.get()).text() == remote_address(socket_.get()).text())
    return fail(std::strerror(ECONNREFUSED));
  state_ = State::handshaking;
  wake_ = Deadline::in(kServerSeconds);
  handshake_.emplace(key_, identity_);
  return true;
}

bool Dial::advance_handshake() {
  const HandshakeStatus status = handshake_->advance(socket_.get());
  if (status == HandshakeStatus::done) {
    state_ = State::done;
    return true;
  }
  if (status == HandshakeStatus::pending) return wake_.passed() && fail(handshake_->error());
  if (handshake_->refused() && when_refused_ == WhenRefused::give_up)
    throw BadInput(
        "rank {}: what listens at {} {}; check the master's address and port, and give all workers "
        "of a job one key",
        identity_.from, addresses_[next_].text(), handshake_->error());
  return fail(handshake_->error());
}

// Returns true when there is another address to try at once.
bool Dial::fail(const std::string& cause) {
  const bool known = next_ < addresses_.size();
  last_error_ = fmt::format("{}: {}", known ? addresses_[next_].text() : hosts_.front(), cause);
  socket_ = Descriptor();
  state_ = State::pausing;
  if (known && ++next_ < addresses_.size()) {
    wake_ = Deadline::in(0);
    return true;
  }
  wake_ = Deadline::in(pause_seconds_);
  pause_seconds_ = std::min(2 * pause_seconds_, kLongestPause);
  attempt_seconds_ = std::min(2 * attempt_seconds_, kLongestAttempt);
  return false;
}

}  // namespace lockstep::net
