#include "elastic/member.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/deadline.h"
#include "base/host.h"
#include "elastic/dial_coordinator.h"
#include "lockstep/error.h"

namespace lockstep::elastic {
namespace {

using net::FrameKind;

// How often to report finished steps.
constexpr double kStepSeconds = 0.2;
// How long sending the last message may take.
constexpr double kLastWordsSeconds = 2;

int event_descriptor() {
  const int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (descriptor < 0)
    throw Error(fmt::format("cannot make an eventfd: {}; see ulimit -n", std::strerror(errno)));
  return descriptor;
}

}  // namespace

Member::Member(const MemberOptions& options)
    : options_(options),
      interrupted_(event_descriptor()),
      wake_(event_descriptor()),
      link_(dial_coordinator(options)) {
  link_.send(FrameKind::membership, encode(Hello{.facts = options.facts,
                                                 .host = host_name(),
                                                 .identity = host_identity(),
                                                 .pid = getpid()}));
  thread_ = std::thread([this] { listen(); });
}

Member::~Member() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  eventfd_write(wake_, 1);
  thread_.join();
  close(interrupted_);
  close(wake_);
}

std::variant<Go, Dismiss> Member::next(const Ready& ready) {
  const MutexLock lock(mutex_);
  abort_ = nullptr;
  if (ready.generation > 0) link_.send(FrameKind::membership, encode(ready));
  eventfd_write(wake_, 1);
  while (!order_ && !lost_) heard_.wait(mutex_);
  if (lost_) throw PeerLost(0, *lost_);
  return *std::exchange(order_, std::nullopt);
}

void Member::on_leave(std::function<void(const std::string&)> abort) {
  const MutexLock lock(mutex_);
  abort_ = std::move(abort);
  if (leave_ && abort_) abort_(*leave_);
}

bool Member::must_leave() {
  const MutexLock lock(mutex_);
  return leave_.has_value();
}

void Member::say(const Bye& bye) {
  say_last(encode(bye));
}

void Member::say(const Fail& fail) {
  say_last(encode(fail));
}

void Member::say_last(const std::string& text) {
  const MutexLock lock(mutex_);
  abort_ = nullptr;
  link_.send(FrameKind::membership, text);
  const Deadline deadline = Deadline::in(kLastWordsSeconds);
  while (!link_.flush() && !deadline.passed()) {
    pollfd wait = link_.waits_for();
    net::wait_for({&wait, 1}, deadline.left());
  }
}

void Member::begin(const Go& go) {
  order_ = go;
  generation_ = go.generation;
  leave_.reset();
  regroup_ = false;
  eventfd_t ignored = 0;
  eventfd_read(interrupted_, &ignored);
}

void Member::leave_at_once(const std::string& why) {
  if (leave_) return;
  leave_ = why;
  eventfd_write(interrupted_, 1);
  if (abort_) abort_(why);
}

void Member::listen() {
  Deadline silent = Deadline::in(options_.silence_seconds);
  Deadline next_beat = Deadline::in(0);
  int64_t step_told = -1;
  bool resigned = false;
  MutexLock lock(mutex_);
  while (!ends_) {
    std::array<pollfd, 3> waits = {
        link_.waits_for(), pollfd{.fd = wake_, .events = POLLIN, .revents = 0},
        pollfd{.fd = resigned ? -1 : options_.stop, .events = POLLIN, .revents = 0}};
    lock.unlock();
    net::wait_for(waits, std::min({kStepSeconds, next_beat.left(), silent.left()}));
    eventfd_t ignored = 0;
    eventfd_read(wake_, &ignored);
    lock.lock();
    link_.flush();
    while (const auto frame = link_.receive()) {
      silent = Deadline::in(options_.silence_seconds);
      if (frame->kind == FrameKind::membership) hear(frame->payload);
    }
    const bool is_silent = options_.is_guest && silent.passed();
    if (!lost_ && (link_.closed() || is_silent)) {
      lost_ = fmt::format(
          "the job's coordinator at {}:{} {}: this worker ends", options_.host, options_.port,
          is_silent ? fmt::format("sent no heartbeat for {:g} s", options_.silence_seconds)
                    : std::string("closed its connection"));
      leave_at_once(*lost_);
    }
    if (silent.passed()) silent = Deadline::never();
    if (next_beat.passed() || step_ != step_told) {
      next_beat = Deadline::in(options_.silence_seconds / 5);
      step_told = step_;
      link_.send(FrameKind::membership, encode(Beat{.step = step_told}));
    }
    if (!resigned && net::is_readable(options_.stop)) {
      resigned = true;
      link_.send(FrameKind::membership, encode(Resign{}));
    }
    heard_.notify_all();
  }
}

void Member::hear(const std::string& text) {
  if (const auto go = parse<Go>(text)) begin(*go);
  if (const auto leave = parse<Leave>(text); leave && leave->generation == generation_) {
    if (leave->at_once)
      leave_at_once(leave->why);
    else
      regroup_ = true;
  }
  if (const auto dismiss = parse<Dismiss>(text)) {
    order_ = *dismiss;
    leave_at_once(dismiss->why.empty() ? "dismissed" : dismiss->why);
  }
}

}  // namespace lockstep::elastic
