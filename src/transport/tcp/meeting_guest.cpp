#include <unistd.h>

#include <algorithm>
#include <utility>

#include "lockstep/error.h"
#include "transport/host.h"
#include "transport/tcp/dial.h"
#include "transport/tcp/frame_link.h"
#include "transport/tcp/meeting_ends.h"

namespace lockstep::transport {
namespace {

// Rank 0 knows who is missing and says so when time is up: it gets a moment longer to do so.
constexpr double kGraceSeconds = 2;

class MeetingAlone : public Rendezvous {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  std::vector<std::string> gather(const std::string& text) override { return {text}; }
};

class MeetingGuest : public Rendezvous {
 public:
  explicit MeetingGuest(const Meeting& meeting) : meeting_(meeting), link_(dial()) {
    const Join join{.world = static_cast<uint32_t>(meeting_.world),
                    .pid = static_cast<uint32_t>(getpid()),
                    .milliseconds_left = milliseconds(deadline_.left()),
                    .host = host_name()};
    link_.send(FrameKind::join, encode(join));
    await_roster();
  }

  int rank() const override { return meeting_.rank; }
  int world_size() const override { return meeting_.world; }
  std::string address() const override { return local_address(link_.descriptor()).host(); }

  std::vector<std::string> gather(const std::string& text) override {
    check_text(meeting_.rank, text);
    deadline_ = Deadline::in(meeting_.seconds);
    const Entry entry{.milliseconds_left = milliseconds(meeting_.seconds), .text = text};
    link_.send(FrameKind::entry, encode(entry));
    std::vector<std::string> texts = await_roster();
    if (texts.size() != static_cast<size_t>(meeting_.world)) lost("sent half a roster");
    return texts;
  }

 private:
  Descriptor dial();
  std::vector<std::string> await_roster();

  std::string master() const { return fmt::format("{}:{}", meeting_.host, meeting_.port); }

  [[noreturn]] void lost(const char* how) const {
    throw PeerLost(0, fmt::format("rank {}: rank 0 at {} {} while workers were meeting; see what "
                                  "rank 0 printed",
                                  meeting_.rank, master(), how));
  }

  [[noreturn]] void interrupted(const char* whom) const {
    throw Interrupted(fmt::format("rank {}: interrupted while waiting for {} at {}", meeting_.rank,
                                  whom, master()));
  }

  Meeting meeting_;
  Deadline deadline_ = Deadline::in(meeting_.seconds);
  FrameLink link_;
};

Descriptor MeetingGuest::dial() {
  Dial dial({meeting_.host}, meeting_.port, meeting_.key,
            {.from = static_cast<uint32_t>(meeting_.rank), .purpose = Purpose::rendezvous},
            Dial::WhenRefused::give_up);
  while (!dial.advance()) {
    if (deadline_.passed())
      throw Timeout({0},
                    fmt::format("rank {}: rank 0 was not reached at {} in {:.0f} s ({}); check "
                                "that rank 0 runs, the master's address and port, and "
                                "firewalls",
                                meeting_.rank, master(), meeting_.seconds, dial.trouble()));
    if (asked_to_stop(meeting_)) interrupted("rank 0");
    wait_or_stop(meeting_, {dial.waits_for()}, std::min(dial.patience(), deadline_.left()));
  }
  return dial.take();
}

std::vector<std::string> MeetingGuest::await_roster() {
  const Deadline deadline = Deadline::in(deadline_.left() + kGraceSeconds);
  while (true) {
    link_.flush();
    while (const std::optional<Frame> frame = link_.receive()) {
      if (frame->kind == FrameKind::failure)
        if (const std::optional<Failure> failure = parse_failure(frame->bytes())) raise(*failure);
      if (frame->kind == FrameKind::roster)
        if (std::optional<std::vector<std::string>> texts = parse_roster(frame->bytes()))
          return std::move(*texts);
      lost("sent what it should not");
    }
    if (link_.closed()) lost("hung up");
    if (deadline.passed())
      throw Timeout({0},
                    fmt::format("rank {}: rank 0 at {} did not answer in {:.0f} s; see whether "
                                "it still runs",
                                meeting_.rank, master(), meeting_.seconds));
    if (asked_to_stop(meeting_)) interrupted("all ranks to come");
    wait_or_stop(meeting_, {link_.waits_for()}, deadline.left());
  }
}

}  // namespace

std::unique_ptr<Rendezvous> join_meeting(const Meeting& meeting) {
  return std::make_unique<MeetingGuest>(meeting);
}

std::unique_ptr<Rendezvous> meet_alone() {
  return std::make_unique<MeetingAlone>();
}

void raise(const Failure& failure) {
  const int first = failure.ranks.empty() ? 0 : failure.ranks.front();
  switch (failure.kind) {
    case FailureKind::timeout:
      throw Timeout(failure.ranks, failure.message);
    case FailureKind::peer_lost:
      throw PeerLost(first, failure.message);
    case FailureKind::mismatch:
      break;
  }
  throw Mismatch("{}", failure.message);
}

void wait_or_stop(const Meeting& meeting, std::vector<pollfd> waits, double seconds) {
  waits.push_back({.fd = meeting.stop, .events = POLLIN});
  wait_for(waits, seconds);
}

bool asked_to_stop(const Meeting& meeting) {
  return is_readable(meeting.stop);
}

uint32_t milliseconds(double seconds) {
  return static_cast<uint32_t>(std::clamp(seconds * 1000, 0.0, 4e9));
}

void check_text(int rank, const std::string& text) {
  if (text.size() > kLongestText)
    throw Error(fmt::format("rank {}: a text of {} bytes is too long to gather: at most {}", rank,
                            text.size(), kLongestText));
}

}  // namespace lockstep::transport
