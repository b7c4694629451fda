#include "elastic/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/host.h"
#include "base/units.h"
#include "net/socket.h"

namespace lockstep::elastic {
namespace {

using net::FrameKind;

// How long to wait for a refused worker to close its connection.
constexpr double kFarewellSeconds = 2;
// Log that workers are missing after waiting for this long.
constexpr double kShortageSeconds = 3;

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options)
    : options_(options), membership_(options.limits) {
  acceptor_.emplace(
      net::listen_at(options.host, options.port), options.key,
      [](const net::Identity& identity) {
        return identity.kind == net::ConnectionKind::membership;
      },
      options.tell);
}

void Coordinator::close_here() {
  acceptor_.reset();
  guests_.clear();
}

void Coordinator::add_waits(std::vector<pollfd>& waits) const {
  waits.push_back({.fd = acceptor_->descriptor(), .events = POLLIN, .revents = 0});
  for (const auto& [id, guest] : guests_) waits.push_back(guest.link.waits_for());
}

double Coordinator::patience() const {
  double seconds =
      std::min({acceptor_->seconds_to_next(), membership_.patience(), next_beat_.left()});
  for (const auto& [id, guest] : guests_) seconds = std::min(seconds, guest.silent.left());
  if (short_since_) seconds = std::min(seconds, short_since_->left());
  return seconds;
}

void Coordinator::serve() {
  welcome();
  for (auto& [id, guest] : guests_) hear(id, guest);
  part_from_who_is_gone();
  carry_out(membership_.orders());
  if (next_beat_.passed()) beat();
  tell_shortage();
}

// Logs only after a while, since a replacement usually joins within a second.
void Coordinator::tell_shortage() {
  const std::string shortage = membership_.shortage();
  if (shortage.empty()) {
    short_since_.reset();
  } else if (!short_since_) {
    short_since_ = Deadline::in(kShortageSeconds);
  } else if (short_since_->passed()) {
    options_.tell(fmt::format("{}: waiting {:.0f} s for more", shortage, membership_.patience()));
    short_since_ = Deadline::never();
  }
}

void Coordinator::welcome() {
  for (net::Acceptor::Connection& connection : acceptor_->serve())
    guests_.emplace(next_id_++, Guest{.link = net::FrameLink(std::move(connection.socket)),
                                      .silent = Deadline::in(options_.silence_seconds)});
}

void Coordinator::hear(MemberId id, Guest& guest) {
  guest.link.flush();
  while (const auto frame = guest.link.receive()) {
    guest.silent = Deadline::in(options_.silence_seconds);
    if (frame->kind == FrameKind::membership) hear(id, guest, frame->payload);
  }
}

void Coordinator::hear(MemberId id, Guest& guest, const std::string& text) {
  if (const auto beat = parse<Beat>(text)) return membership_.beat(id, beat->step);
  if (const auto ready = parse<Ready>(text)) return membership_.ready(id, *ready);
  if (const auto hello = parse<Hello>(text)) return admit(id, guest, *hello);
  if (const auto control = parse<Control>(text)) return answer(guest, *control);
  if (parse<Resign>(text)) return membership_.resign(id);
  if (const auto fail = parse<Fail>(text)) {
    membership_.failed(id, *fail);
    guest.member = false;
  }
  if (parse<Bye>(text)) {
    membership_.bye(id);
    guest.member = false;
  }
}

void Coordinator::admit(MemberId id, Guest& guest, const Hello& hello) {
  if (guest.member) return;
  const auto place = places_.find(hello.pid);
  const bool is_here = place != places_.end() && hello.identity == host_identity();
  const auto refusal =
      membership_.admit(id, hello, {.here = is_here ? std::optional(place->second) : std::nullopt});
  if (refusal) {
    options_.tell(
        fmt::format("refused a worker ({}, pid {}): {}", hello.host, hello.pid, *refusal));
    guest.link.send(FrameKind::membership, encode(Dismiss{.refused = true, .why = *refusal}));
    guest.silent = Deadline::in(kFarewellSeconds);
    return;
  }
  guest.member = true;
  if (is_here) guest.pid_here = hello.pid;
}

void Coordinator::answer(Guest& guest, const Control& control) {
  Status status;
  if (control.workers)
    if (const auto refusal = membership_.want(*control.workers))
      status = {.text = *refusal, .refused = true};
  if (!status.refused)
    status.text = control.workers ? fmt::format("{} from the next step on\n",
                                                plural(*control.workers, "worker"))
                                  : membership_.text();
  guest.link.send(FrameKind::membership, encode(status));
}

// A worker of this host is lost only when its process has ended: until then it may be writing.
void Coordinator::part_from_who_is_gone() {
  for (auto entry = guests_.begin(); entry != guests_.end();) {
    auto& [id, guest] = *entry;
    const bool gone = guest.link.closed() || guest.silent.passed();
    if (!gone || guest.condemned) {
      ++entry;
      continue;
    }
    if (guest.member && places_.contains(guest.pid_here)) {
      condemned_.push_back(guest.pid_here);
      guest.condemned = true;
      guest.silent = Deadline::never();
      continue;
    }
    if (guest.member) {
      if (!membership_.over())
        options_.tell(fmt::format("{} {}", membership_.name(id),
                                  guest.link.closed() ? std::string("closed its connection")
                                                      : fmt::format("sent no heartbeat for {:g} s",
                                                                    options_.silence_seconds)));
      membership_.lost(id);
    }
    entry = guests_.erase(entry);
  }
}

void Coordinator::started(int pid, int place) {
  places_[pid] = place;
}

void Coordinator::ended(int pid) {
  places_.erase(pid);
  for (auto entry = guests_.begin(); entry != guests_.end();) {
    auto& [id, guest] = *entry;
    if (guest.pid_here != pid) {
      ++entry;
      continue;
    }
    hear(id, guest);  // messages that it sent before it ended
    if (guest.member) membership_.lost(id);
    entry = guests_.erase(entry);
  }
}

std::vector<int> Coordinator::take_condemned() {
  return std::exchange(condemned_, {});
}

void Coordinator::carry_out(const std::vector<Order>& orders) {
  const bool begins = std::any_of(orders.begin(), orders.end(), [](const Order& order) {
    return std::holds_alternative<Go>(order.what);
  });
  const auto port = begins ? net::free_port() : uint16_t{0};
  for (const auto& [to, what] : orders) {
    const auto guest = guests_.find(to);
    if (guest == guests_.end()) continue;
    net::FrameLink& link = guest->second.link;
    if (const auto* go = std::get_if<Go>(&what)) {
      Go with_port = *go;
      with_port.port = port;
      link.send(FrameKind::membership, encode(with_port));
    } else if (const auto* leave = std::get_if<Leave>(&what)) {
      link.send(FrameKind::membership, encode(*leave));
    } else {
      link.send(FrameKind::membership, encode(std::get<Dismiss>(what)));
      guest->second.member = false;
    }
  }
}

void Coordinator::beat() {
  next_beat_ = Deadline::in(options_.silence_seconds / 5);
  for (auto& [id, guest] : guests_)
    if (guest.member) guest.link.send(FrameKind::membership, encode(Beat{}));
}

}  // namespace lockstep::elastic
