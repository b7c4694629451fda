#include <unistd.h>

#include <algorithm>
#include <functional>
#include <list>
#include <optional>
#include <utility>

#include "lockstep/error.h"
#include "transport/host.h"
#include "transport/tcp/frame_link.h"
#include "transport/tcp/meeting_ends.h"

// Rank 0's end of a rendezvous. Words: a `newcomer` has passed the doorman and has not said yet
// what world it believes in; a `member` has, and its rank is taken from then on. Whatever goes
// wrong is told to everyone who is there before it is thrown here.
namespace lockstep::transport {
namespace {

constexpr double kNewcomerSeconds = 10;
// Who waits longer than this for others to come says so.
constexpr double kNoticeSeconds = 3;
// How long to see that all have read why the meeting failed, before connections are closed.
constexpr double kFarewellSeconds = 0.5;

struct Newcomer {
  FrameLink link;
  int rank;
  Deadline deadline;
};

struct Member {
  std::optional<FrameLink> link;
  Peer peer;
  std::optional<std::string> text;
};

class MeetingHost : public Rendezvous {
 public:
  explicit MeetingHost(const Meeting& meeting);

  int rank() const override { return 0; }
  int world_size() const override { return meeting_.world; }
  std::vector<std::string> gather(const std::string& text) override;
  std::string address() const override {
    return local_address(members_[1].link->descriptor()).host();
  }

 private:
  void wait_until(const std::function<bool()>& done);
  void move();
  void wait(Deadline notice);
  std::string waiting_for() const;
  void tell(const std::string& text) const;
  void welcome_newcomers();
  void hear(Newcomer& newcomer);
  void admit(Newcomer& newcomer, const Join& join);
  void refuse(Newcomer& newcomer, const Failure& failure);
  void turn_away(Newcomer& newcomer, const Failure& failure);
  void hear(Member& member);
  void hand_out(const std::vector<std::string>& texts);
  std::vector<int> missing() const;
  bool all_here() const { return joined_ == meeting_.world; }
  [[noreturn]] void time_out();
  [[noreturn]] void interrupted();
  [[noreturn]] void fail(const Failure& failure);
  void part(const Failure& failure);

  Meeting meeting_;
  Doorman doorman_;
  Deadline deadline_;
  std::list<Newcomer> newcomers_;
  std::vector<Member> members_;
  int joined_ = 1;
};

MeetingHost::MeetingHost(const Meeting& meeting)
    : meeting_(meeting),
      doorman_(
          listen_at(meeting.host, meeting.port), meeting.key,
          [](const Identity& identity) { return identity.purpose == Purpose::rendezvous; },
          meeting.log),
      deadline_(Deadline::in(meeting.seconds)),
      members_(static_cast<size_t>(meeting.world)) {
  members_[0].peer = {.rank = 0, .host = host_name(), .pid = getpid()};
  wait_until([this] { return all_here(); });
  hand_out({});
}

std::vector<std::string> MeetingHost::gather(const std::string& text) {
  check_text(0, text);
  deadline_ = Deadline::in(meeting_.seconds);
  members_[0].text = text;
  wait_until([this] { return missing().empty(); });
  std::vector<std::string> texts;
  for (Member& member : members_) texts.push_back(*std::exchange(member.text, std::nullopt));
  hand_out(texts);
  return texts;
}

void MeetingHost::wait_until(const std::function<bool()>& done) {
  Deadline notice = Deadline::in(kNoticeSeconds);
  move();
  while (!done()) {
    if (deadline_.passed()) time_out();
    if (asked_to_stop(meeting_)) interrupted();
    if (notice.passed()) {
      tell(waiting_for());
      notice = Deadline::never();
    }
    wait(notice);
    move();
  }
}

void MeetingHost::move() {
  welcome_newcomers();
  for (Member& member : members_)
    if (member.link) hear(member);
}

std::string MeetingHost::waiting_for() const {
  const std::vector<int> ranks = missing();
  return fmt::format("waiting for rank{} {} at {}:{}", ranks.size() == 1 ? "" : "s",
                     fmt::join(ranks, ", "), meeting_.host, meeting_.port);
}

void MeetingHost::tell(const std::string& text) const {
  if (meeting_.log)
    meeting_.log(text);
  else
    fmt::print(stderr, "lockstep: {}\n", text);
}

void MeetingHost::wait(Deadline notice) {
  std::vector<pollfd> waits = {{.fd = doorman_.descriptor(), .events = POLLIN}};
  double seconds = std::min({deadline_.left(), doorman_.patience(), notice.left()});
  for (const Newcomer& newcomer : newcomers_) {
    waits.push_back(newcomer.link.waits_for());
    seconds = std::min(seconds, newcomer.deadline.left());
  }
  for (const Member& member : members_)
    if (member.link) waits.push_back(member.link->waits_for());
  wait_or_stop(meeting_, std::move(waits), seconds);
}

void MeetingHost::welcome_newcomers() {
  for (Doorman::Guest& guest : doorman_.serve())
    newcomers_.push_back({FrameLink(std::move(guest.socket)),
                          static_cast<int>(guest.identity.from % kLargestWorld),
                          Deadline::in(kNewcomerSeconds)});
  for (Newcomer& newcomer : newcomers_) hear(newcomer);
  newcomers_.remove_if([](const Newcomer& newcomer) {
    return newcomer.link.closed() || newcomer.deadline.passed() || newcomer.link.descriptor() < 0;
  });
}

void MeetingHost::hear(Newcomer& newcomer) {
  const std::optional<Frame> frame = newcomer.link.receive();
  if (!frame) return;
  const std::optional<Join> join =
      frame->kind == FrameKind::join ? parse_join(frame->bytes()) : std::nullopt;
  if (join)
    admit(newcomer, *join);
  else
    newcomer.deadline = Deadline::in(0);
}

void MeetingHost::admit(Newcomer& newcomer, const Join& join) {
  const Peer peer{.rank = newcomer.rank, .host = join.host, .pid = static_cast<int>(join.pid)};
  if (static_cast<int>(join.world) != meeting_.world)
    return refuse(
        newcomer,
        {.kind = FailureKind::mismatch,
         .ranks = {newcomer.rank},
         .message = fmt::format("{} was started for a world of {}, and {} for a world of "
                                "{}; start all workers with one world size",
                                peer.text(), join.world, members_[0].peer.text(), meeting_.world)});
  const auto rank = static_cast<size_t>(newcomer.rank);
  if (rank >= members_.size()) {
    tell(fmt::format("turned {} away: ranks of this job are 0 to {}", peer.text(),
                     meeting_.world - 1));
    return turn_away(newcomer, {.kind = FailureKind::mismatch,
                                .ranks = {newcomer.rank},
                                .message = fmt::format("{} is no rank of a job of {} workers",
                                                       peer.text(), meeting_.world)});
  }
  if (rank == 0 || members_[rank].link)
    return refuse(newcomer, {.kind = FailureKind::mismatch,
                             .ranks = {newcomer.rank},
                             .message = fmt::format("two workers say they are rank {}: {} and {}; "
                                                    "give each its own rank from 0 to {}",
                                                    rank, members_[rank].peer.text(), peer.text(),
                                                    meeting_.world - 1)});
  members_[rank] = {.link = std::move(newcomer.link), .peer = peer, .text = {}};
  deadline_ = deadline_.or_in(join.milliseconds_left / 1000.0);
  ++joined_;
}

// Before all are here it is not known who is right. Afterwards it is the newcomer who is too many.
void MeetingHost::refuse(Newcomer& newcomer, const Failure& failure) {
  if (!all_here()) fail(failure);
  turn_away(newcomer, failure);
}

void MeetingHost::turn_away(Newcomer& newcomer, const Failure& failure) {
  newcomer.link.send(FrameKind::failure, encode(failure));
  newcomer.link.finish();
  newcomer.deadline = Deadline::in(0);
}

void MeetingHost::hear(Member& member) {
  member.link->flush();
  const std::optional<Frame> frame = member.link->receive();
  if (frame) {
    const std::optional<Entry> entry =
        frame->kind == FrameKind::entry ? parse_entry(frame->bytes()) : std::nullopt;
    if (entry && !member.text) {
      member.text = entry->text;
      deadline_ = deadline_.or_in(entry->milliseconds_left / 1000.0);
      return;
    }
  } else if (!member.link->closed()) {
    return;
  }
  fail({.kind = FailureKind::peer_lost,
        .ranks = {member.peer.rank},
        .message =
            fmt::format("{} {} while workers were meeting; see what it printed", member.peer.text(),
                        frame ? "sent what it should not" : "went away")});
}

void MeetingHost::hand_out(const std::vector<std::string>& texts) {
  const std::string roster = encode_roster(texts);
  for (Member& member : members_)
    if (member.link) member.link->send(FrameKind::roster, roster);
  for (Member& member : members_)
    while (member.link && !member.link->flush()) {
      if (deadline_.passed()) time_out();
      pollfd wait = member.link->waits_for();
      wait_for({&wait, 1}, deadline_.left());
    }
}

std::vector<int> MeetingHost::missing() const {
  std::vector<int> ranks;
  for (int rank = 1; rank < meeting_.world; ++rank) {
    const Member& member = members_[static_cast<size_t>(rank)];
    if (all_here() ? !member.text : !member.link) ranks.push_back(rank);
  }
  return ranks;
}

void MeetingHost::time_out() {
  const std::vector<int> ranks = missing();
  const std::string dropped =
      doorman_.dropped() == 0
          ? ""
          : fmt::format(
                "; {} connections were dropped: have all workers the same LOCKSTEP_JOB_KEY?",
                doorman_.dropped());
  fail({.kind = FailureKind::timeout,
        .ranks = ranks,
        .message = fmt::format("rank{} {} did not come to {}:{} in time ({} of {} ranks are here); "
                               "see whether they run, and whether they can reach this address{}",
                               ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "), meeting_.host,
                               meeting_.port, meeting_.world - static_cast<int>(ranks.size()),
                               meeting_.world, dropped)});
}

void MeetingHost::interrupted() {
  const std::string text = "interrupted while " + waiting_for();
  part({.kind = FailureKind::peer_lost, .ranks = {0}, .message = "rank 0 was " + text});
  throw Interrupted("rank 0: " + text);
}

void MeetingHost::fail(const Failure& failure) {
  part(failure);
  raise(failure);
}

void MeetingHost::part(const Failure& failure) {
  const Deadline deadline = Deadline::in(kFarewellSeconds);
  std::vector<FrameLink*> links;
  for (Member& member : members_)
    if (member.link) links.push_back(&*member.link);
  for (Newcomer& newcomer : newcomers_) links.push_back(&newcomer.link);
  for (FrameLink* link : links) link->send(FrameKind::failure, encode(failure));
  for (FrameLink* link : links) {
    // To close with something unread would take back what was sent.
    bool finished = false;
    while (!link->closed() && !deadline.passed()) {
      if (!finished && link->flush()) {
        link->finish();
        finished = true;
      }
      while (link->receive()) continue;
      pollfd wait = link->waits_for();
      if (!link->closed()) wait_for({&wait, 1}, deadline.left());
    }
  }
}

}  // namespace

std::unique_ptr<Rendezvous> host_meeting(const Meeting& meeting) {
  return std::make_unique<MeetingHost>(meeting);
}

}  // namespace lockstep::transport
