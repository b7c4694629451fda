#include "net/tcp_rendezvous.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/host.h"
#include "lockstep/error.h"
#include "net/dial.h"
#include "net/frame_link.h"
#include "net/tcp_rendezvous_parts.h"

namespace lockstep::net {
namespace {

// Rank 0 knows which ranks are missing and tells all when time is up: wait a moment longer for it.
constexpr double kGraceSeconds = 2;

uint32_t milliseconds(double seconds) {
  return static_cast<uint32_t>(std::clamp(seconds * 1000, 0.0, 4e9));
}

/// For a world size of 1.
class SoloRendezvous : public Rendezvous {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  std::vector<std::string> gather(const std::string& text) override { return {text}; }
};

/// The end of every rank but rank 0.
class RendezvousClient : public Rendezvous {
 public:
  explicit RendezvousClient(const TcpRendezvousOptions& options)
      : options_(options), link_(dial()) {
    const Join join{.world_size = static_cast<uint32_t>(options_.world_size),
                    .pid = static_cast<uint32_t>(getpid()),
                    .milliseconds_left = milliseconds(deadline_.left()),
                    .host = host_name()};
    link_.send(FrameKind::join, encode(join));
    await_roster();
  }

  int rank() const override { return options_.rank; }
  int world_size() const override { return options_.world_size; }
  std::string address() const override { return local_address(link_.descriptor()).host(); }

  std::vector<std::string> gather(const std::string& text) override {
    check_text(options_.rank, text);
    deadline_ = Deadline::in(options_.timeout_seconds);
    const GatherEntry entry{.milliseconds_left = milliseconds(options_.timeout_seconds),
                            .text = text};
    link_.send(FrameKind::entry, encode(entry));
    std::vector<std::string> texts = await_roster();
    if (texts.size() != static_cast<size_t>(options_.world_size)) lost("sent half a roster");
    return texts;
  }

 private:
  Descriptor dial();
  std::vector<std::string> await_roster();

  std::string master() const {
    std::string first = fmt::format("{}:{}", options_.host, options_.port);
    if (options_.spare_ports.empty()) return first;
    return fmt::format("{} (or port {})", first, fmt::join(options_.spare_ports, ", "));
  }

  [[noreturn]] void lost(const char* how) const {
    throw PeerLost(0, fmt::format("rank {}: rank 0 at {} {} during the rendezvous; see what rank 0 "
                                  "printed",
                                  options_.rank, master(), how));
  }

  [[noreturn]] void interrupted(const char* waiting_for) const {
    throw Interrupted(fmt::format("rank {}: interrupted while waiting for {} at {}", options_.rank,
                                  waiting_for, master()));
  }

  TcpRendezvousOptions options_;
  Deadline deadline_ = Deadline::in(options_.timeout_seconds);
  FrameLink link_;
};

Descriptor RendezvousClient::dial() {
  std::vector<uint16_t> ports = options_.spare_ports;
  ports.insert(ports.begin(), options_.port);
  Dial dial({options_.host}, ports, options_.key,
            {.from = static_cast<uint32_t>(options_.rank), .kind = ConnectionKind::rendezvous},
            ports.size() == 1 ? Dial::WhenRefused::give_up : Dial::WhenRefused::try_next);
  while (!dial.advance()) {
    if (deadline_.passed())
      throw Timeout(
          {0}, fmt::format("rank {}: cannot connect to rank 0 at {} within {:g} s ({}); check that "
                           "rank 0 runs, the master's address and port, and firewalls",
                           options_.rank, master(), options_.timeout_seconds, dial.last_error()));
    if (asked_to_stop(options_)) interrupted("rank 0");
    wait_or_stop(options_, {dial.waits_for()}, std::min(dial.seconds_to_next(), deadline_.left()));
  }
  return dial.take();
}

std::vector<std::string> RendezvousClient::await_roster() {
  const Deadline deadline = Deadline::in(deadline_.left() + kGraceSeconds);
  while (true) {
    link_.flush();
    while (const std::optional<Frame> frame = link_.receive()) {
      if (frame->kind == FrameKind::failure)
        if (const auto failure = parse_failure(frame->bytes())) failure->raise();
      if (frame->kind == FrameKind::roster)
        if (std::optional<std::vector<std::string>> texts = parse_roster(frame->bytes()))
          return std::move(*texts);
      lost("sent an unexpected frame");
    }
    if (link_.closed()) lost("closed the connection");
    if (deadline.passed())
      throw Timeout(
          {0}, fmt::format("rank {}: rank 0 at {} did not answer within {:g} s; check whether it "
                           "still runs",
                           options_.rank, master(), options_.timeout_seconds));
    if (asked_to_stop(options_)) interrupted("the other ranks");
    wait_or_stop(options_, {link_.waits_for()}, deadline.left());
  }
}

}  // namespace

void wait_or_stop(const TcpRendezvousOptions& options, std::vector<pollfd> waits, double seconds) {
  waits.push_back({.fd = options.stop, .events = POLLIN});
  wait_for(waits, seconds);
}

bool asked_to_stop(const TcpRendezvousOptions& options) {
  return is_readable(options.stop);
}

void check_text(int rank, const std::string& text) {
  if (text.size() > kLongestText)
    throw Error(fmt::format("rank {}: a text of {} bytes is too long to gather: at most {}", rank,
                            text.size(), kLongestText));
}

std::unique_ptr<Rendezvous> rendezvous_over_tcp(const TcpRendezvousOptions& options) {
  if (options.world_size < 1 || options.world_size > static_cast<int>(kLargestWorld))
    throw BadInput("world size {}: expected 1 to {}", options.world_size, kLargestWorld);
  if (options.rank < 0 || options.rank >= options.world_size)
    throw BadInput("rank {}: expected 0 to {} in a world of {}", options.rank,
                   options.world_size - 1, options.world_size);
  if (options.world_size == 1) return std::make_unique<SoloRendezvous>();
  if (options.rank == 0) return serve_rendezvous(options);
  return std::make_unique<RendezvousClient>(options);
}

}  // namespace lockstep::net
