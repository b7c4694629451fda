#include "transport/tcp/dial.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::transport {
namespace {

constexpr double kFirstRest = 0.01;
constexpr double kLongestRest = 0.5;
constexpr double kFirstAttempt = 1;
constexpr double kLongestAttempt = 30;
// More than a doorman gives strangers, so that it is he who decides.
constexpr double kAnswerSeconds = 4;

}  // namespace

Dial::Dial(std::vector<std::string> hosts, uint16_t port, std::string key, const Identity& identity,
           WhenRefused when_refused)
    : hosts_(std::move(hosts)),
      port_(port),
      key_(std::move(key)),
      identity_(identity),
      when_refused_(when_refused),
      rest_seconds_(kFirstRest),
      attempt_seconds_(kFirstAttempt) {}

pollfd Dial::waits_for() const {
  if (state_ == State::connecting) return {.fd = socket_.get(), .events = POLLOUT};
  if (state_ == State::shaking) return {.fd = socket_.get(), .events = POLLIN};
  return {.fd = -1};
}

bool Dial::advance() {
  bool moved = true;
  while (moved && state_ != State::done) {
    if (state_ == State::resting)
      moved = wake_.passed() && dial_next();
    else if (state_ == State::connecting)
      moved = finish_connecting();
    else
      moved = shake();
  }
  return state_ == State::done;
}

bool Dial::dial_next() {
  if (next_ == addresses_.size()) {
    addresses_.clear();
    next_ = 0;
    for (const std::string& host : hosts_) {
      const std::vector<Address> found = resolve(host, port_);
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
  state_ = State::shaking;
  wake_ = Deadline::in(kAnswerSeconds);
  handshake_.emplace(key_, identity_);
  return true;
}

bool Dial::shake() {
  const Progress progress = handshake_->advance(socket_.get());
  if (progress == Progress::done) {
    state_ = State::done;
    return true;
  }
  if (progress == Progress::going) return wake_.passed() && fail(handshake_->trouble());
  if (handshake_->refused() && when_refused_ == WhenRefused::give_up)
    throw BadInput(
        "rank {}: what listens at {} {}; check the master's address and port, and give all workers "
        "of a job one key",
        identity_.from, addresses_[next_].text(), handshake_->trouble());
  return fail(handshake_->trouble());
}

// True: there is another address to try at once.
bool Dial::fail(const std::string& cause) {
  const bool known = next_ < addresses_.size();
  trouble_ = fmt::format("{}: {}", known ? addresses_[next_].text() : hosts_.front(), cause);
  socket_ = Descriptor();
  state_ = State::resting;
  if (known && ++next_ < addresses_.size()) {
    wake_ = Deadline::in(0);
    return true;
  }
  wake_ = Deadline::in(rest_seconds_);
  rest_seconds_ = std::min(2 * rest_seconds_, kLongestRest);
  attempt_seconds_ = std::min(2 * attempt_seconds_, kLongestAttempt);
  return false;
}

}  // namespace lockstep::transport
