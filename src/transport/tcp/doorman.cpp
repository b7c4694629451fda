#include "transport/tcp/doorman.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::transport {
namespace {

constexpr size_t kMostStrangers = 256;
constexpr double kGuestSeconds = 2;
constexpr double kIdleSeconds = 3600;
constexpr double kClosedSeconds = 0.1;
constexpr int kAcceptedAtOnce = 256;
// No more than so many lines in so many seconds, however many strangers come.
constexpr int kLines = 5;
constexpr double kLinesSeconds = 5;

bool watch(int epoll, int descriptor) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace

Doorman::Doorman(Descriptor listener, std::string key, Expects expects, Log log)
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

double Doorman::patience() const {
  const double stranger = strangers_.empty() ? kIdleSeconds : strangers_.front().deadline.left();
  return std::min(stranger, closed_ ? closed_until_.left() : kIdleSeconds);
}

std::vector<Doorman::Guest> Doorman::serve() {
  std::vector<Guest> guests;
  if (closed_ && closed_until_.passed()) closed_ = !watch(epoll_.get(), listener_.get());
  std::array<epoll_event, kMostStrangers> events;
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const int descriptor = events[static_cast<size_t>(i)].data.fd;
    if (descriptor == listener_.get()) {
      accept_all();
      continue;
    }
    const auto found = by_descriptor_.find(descriptor);
    if (found == by_descriptor_.end()) continue;
    const auto stranger = found->second;
    const Progress progress = stranger->handshake.advance(descriptor);
    if (progress == Progress::failed) drop(stranger, stranger->handshake.trouble());
    if (progress != Progress::done) continue;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
    guests.push_back({std::move(stranger->socket), stranger->handshake.identity()});
    by_descriptor_.erase(found);
    strangers_.erase(stranger);
  }
  drop_late();
  return guests;
}

void Doorman::accept_all() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    Descriptor socket = accept_from(listener_.get());
    if (!socket) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      const bool no_room =
          errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (no_room && !make_room()) return;
      continue;
    }
    if (strangers_.size() >= kMostStrangers)
      drop(strangers_.begin(), "waited while too many others came");
    if (!watch(epoll_.get(), socket.get())) continue;
    const int descriptor = socket.get();
    std::string address = remote_address(descriptor).text();
    strangers_.push_back({std::move(socket), std::move(address), HostHandshake(key_, expects_),
                          Deadline::in(kGuestSeconds)});
    const auto stranger = std::prev(strangers_.end());
    by_descriptor_[descriptor] = stranger;
    if (stranger->handshake.challenge(descriptor) == Progress::failed)
      drop(stranger, stranger->handshake.trouble());
  }
}

// A descriptor for the next one. With no stranger to drop, those outside wait: a listening socket
// that stays readable would make everyone's waits end at once.
bool Doorman::make_room() {
  if (!strangers_.empty()) {
    drop(strangers_.begin(), "waited while no more files could be opened");
    return true;
  }
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
  closed_ = true;
  closed_until_ = Deadline::in(kClosedSeconds);
  return false;
}

void Doorman::drop_late() {
  while (!strangers_.empty() && strangers_.front().deadline.passed())
    drop(strangers_.begin(), strangers_.front().handshake.trouble());
}

void Doorman::drop(Strangers::iterator stranger, const char* why) {
  ++dropped_;
  const char* const what =
      stranger->handshake.refused() ? "turned away a worker at" : "dropped a connection from";
  say(fmt::format("{} {}: it {}", what, stranger->address, why));
  by_descriptor_.erase(stranger->socket.get());
  strangers_.erase(stranger);
}

void Doorman::say(const std::string& line) {
  if (quiet_until_.passed()) {
    quiet_until_ = Deadline::in(kLinesSeconds);
    lines_ = 0;
  }
  if (++lines_ > kLines) {
    ++unsaid_;
    return;
  }
  const int unsaid = std::exchange(unsaid_, 0);
  const std::string text = unsaid == 0 ? line : fmt::format("{} (and {} more)", line, unsaid);
  if (log_)
    log_(text);
  else
    fmt::print(stderr, "lockstep: {}\n", text);
}

}  // namespace lockstep::transport
