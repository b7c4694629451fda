#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <list>
#include <optional>
#include <utility>

#include "base/host.h"
#include "lockstep/error.h"
#include "net/frame_link.h"
#include "net/tcp_rendezvous_parts.h"

// Rank 0's end of a rendezvous. Words: a `newcomer` has passed its handshake and has not sent its
// Join frame yet; a rank is `joined` once it has. Invariant: whatever goes wrong is sent to all
// connected ranks before it is thrown here.
namespace lockstep::net {
namespace {

constexpr double kNewcomerSeconds = 10;
// After waiting longer than this, log which ranks are missing.
constexpr double kNoticeSeconds = 3;
// How long to wait until all ranks have read why the rendezvous failed, before closing connections.
constexpr double kFarewellSeconds = 0.5;

struct Newcomer {
  FrameLink link;
  int rank;
  Deadline deadline;
};

struct Joined {
  std::optional<FrameLink> link;
  Peer peer;
  std::optional<std::string> text;
};

class RendezvousServer : public Rendezvous {
 public:
  explicit RendezvousServer(const TcpRendezvousOptions& options);

  int rank() const override { return 0; }
  int world_size() const override { return options_.world_size; }
  std::vector<std::string> gather(const std::string& text) override;
  std::string address() const override {
    return local_address(ranks_[1].link->descriptor()).host();
  }

 private:
  void wait_until(const std::function<bool()>& done);
  void serve();
  void wait(Deadline notice);
  std::string waiting_for() const;
  void log(const std::string& text) const;
  void accept_newcomers();
  void hear(Newcomer& newcomer);
  void admit(Newcomer& newcomer, const Join& join);
  void refuse(Newcomer& newcomer, const RendezvousFailure& failure);
  void send_away(Newcomer& newcomer, const RendezvousFailure& failure);
  void hear(Joined& joined);
  void send_roster(const std::vector<std::string>& texts);
  std::vector<int> missing() const;
  bool all_joined() const { return joined_count_ == options_.world_size; }
  [[noreturn]] void time_out();
  [[noreturn]] void interrupted();
  [[noreturn]] void fail(const RendezvousFailure& failure);
  void tell_all(const RendezvousFailure& failure);

  TcpRendezvousOptions options_;
  Acceptor acceptor_;
  Deadline deadline_;
  std::list<Newcomer> newcomers_;
  std::vector<Joined> ranks_;
  int joined_count_ = 1;
};

// `options.port` becomes the port that was free.
Descriptor listen_at_first_free(TcpRendezvousOptions& options) {
  for (const uint16_t spare : options.spare_ports) try {
      return listen_at(options.host, options.port);
    } catch (const BadInput&) {
      options.port = spare;
    }
  return listen_at(options.host, options.port);
}

RendezvousServer::RendezvousServer(const TcpRendezvousOptions& options)
    : options_(options),
      acceptor_(
          listen_at_first_free(options_), options.key,
          [](const Identity& identity) { return identity.kind == ConnectionKind::rendezvous; },
          options.log),
      deadline_(Deadline::in(options.timeout_seconds)),
      ranks_(static_cast<size_t>(options.world_size)) {
  ranks_[0].peer = {.rank = 0, .host = host_name(), .pid = getpid()};
  wait_until([this] { return all_joined(); });
  send_roster({});
}

std::vector<std::string> RendezvousServer::gather(const std::string& text) {
  check_text(0, text);
  deadline_ = Deadline::in(options_.timeout_seconds);
  ranks_[0].text = text;
  wait_until([this] { return missing().empty(); });
  std::vector<std::string> texts;
  for (Joined& joined : ranks_) texts.push_back(*std::exchange(joined.text, std::nullopt));
  send_roster(texts);
  return texts;
}

void RendezvousServer::wait_until(const std::function<bool()>& done) {
  Deadline notice = Deadline::in(kNoticeSeconds);
  serve();
  while (!done()) {
    if (deadline_.passed()) time_out();
    if (asked_to_stop(options_)) interrupted();
    if (notice.passed()) {
      log(waiting_for());
      notice = Deadline::never();
    }
    wait(notice);
    serve();
  }
}

void RendezvousServer::serve() {
  accept_newcomers();
  for (Joined& joined : ranks_)
    if (joined.link) hear(joined);
}

std::string RendezvousServer::waiting_for() const {
  const std::vector<int> ranks = missing();
  return fmt::format("waiting for rank{} {} at {}:{}", ranks.size() == 1 ? "" : "s",
                     fmt::join(ranks, ", "), options_.host, options_.port);
}

void RendezvousServer::log(const std::string& text) const {
  if (options_.log)
    options_.log(text);
  else
    fmt::print(stderr, "lockstep: {}\n", text);
}

void RendezvousServer::wait(Deadline notice) {
  std::vector<pollfd> waits = {{.fd = acceptor_.descriptor(), .events = POLLIN}};
  double seconds = std::min({deadline_.left(), acceptor_.seconds_to_next(), notice.left()});
  for (const Newcomer& newcomer : newcomers_) {
    waits.push_back(newcomer.link.waits_for());
    seconds = std::min(seconds, newcomer.deadline.left());
  }
  for (const Joined& joined : ranks_)
    if (joined.link) waits.push_back(joined.link->waits_for());
  wait_or_stop(options_, std::move(waits), seconds);
}

void RendezvousServer::accept_newcomers() {
  for (Acceptor::Connection& connection : acceptor_.serve())
    newcomers_.push_back({FrameLink(std::move(connection.socket)),
                          static_cast<int>(connection.identity.from % kLargestWorld),
                          Deadline::in(kNewcomerSeconds)});
  for (Newcomer& newcomer : newcomers_) hear(newcomer);
  newcomers_.remove_if([](const Newcomer& newcomer) {
    return newcomer.link.closed() || newcomer.deadline.passed() || newcomer.link.descriptor() < 0;
  });
}

void RendezvousServer::hear(Newcomer& newcomer) {
  const std::optional<Frame> frame = newcomer.link.receive();
  if (!frame) return;
  const std::optional<Join> join =
      frame->kind == FrameKind::join ? parse_join(frame->bytes()) : std::nullopt;
  if (join)
    admit(newcomer, *join);
  else
    newcomer.deadline = Deadline::in(0);
}

void RendezvousServer::admit(Newcomer& newcomer, const Join& join) {
  const Peer peer{.rank = newcomer.rank, .host = join.host, .pid = static_cast<int>(join.pid)};
  if (static_cast<int>(join.world_size) != options_.world_size)
    return refuse(newcomer,
                  {.kind = FailureKind::mismatch,
                   .ranks = {newcomer.rank},
                   .message = fmt::format("{} was started for a world of {}, and {} for a world of "
                                          "{}; start all workers with one world size",
                                          peer.text(), join.world_size, ranks_[0].peer.text(),
                                          options_.world_size)});
  const auto rank = static_cast<size_t>(newcomer.rank);
  if (rank >= ranks_.size()) {
    log(fmt::format("refused {}: ranks of this job are 0 to {}", peer.text(),
                    options_.world_size - 1));
    return send_away(newcomer, {.kind = FailureKind::mismatch,
                                .ranks = {newcomer.rank},
                                .message = fmt::format("{} is no rank of a job of {} workers",
                                                       peer.text(), options_.world_size)});
  }
  if (rank == 0 || ranks_[rank].link)
    return refuse(newcomer, {.kind = FailureKind::mismatch,
                             .ranks = {newcomer.rank},
                             .message = fmt::format("two workers have rank {}: {} and {}; "
                                                    "give each its own rank from 0 to {}",
                                                    rank, ranks_[rank].peer.text(), peer.text(),
                                                    options_.world_size - 1)});
  ranks_[rank] = {.link = std::move(newcomer.link), .peer = peer, .text = {}};
  deadline_ = deadline_.or_in(join.milliseconds_left / 1000.0);
  ++joined_count_;
}

// Before all ranks have joined it is not known who is right. Afterwards the newcomer is wrong.
void RendezvousServer::refuse(Newcomer& newcomer, const RendezvousFailure& failure) {
  if (!all_joined()) fail(failure);
  send_away(newcomer, failure);
}

void RendezvousServer::send_away(Newcomer& newcomer, const RendezvousFailure& failure) {
  newcomer.link.send(FrameKind::failure, encode(failure));
  newcomer.link.finish();
  newcomer.deadline = Deadline::in(0);
}

void RendezvousServer::hear(Joined& joined) {
  joined.link->flush();
  const std::optional<Frame> frame = joined.link->receive();
  if (frame) {
    const std::optional<GatherEntry> entry =
        frame->kind == FrameKind::entry ? parse_entry(frame->bytes()) : std::nullopt;
    if (entry && !joined.text) {
      joined.text = entry->text;
      deadline_ = deadline_.or_in(entry->milliseconds_left / 1000.0);
      return;
    }
  } else if (!joined.link->closed()) {
    return;
  }
  fail({.kind = FailureKind::peer_lost,
        .ranks = {joined.peer.rank},
        .message =
            fmt::format("{} {} during the rendezvous; see what it printed", joined.peer.text(),
                        frame ? "sent an unexpected frame" : "closed its connection")});
}

void RendezvousServer::send_roster(const std::vector<std::string>& texts) {
  const std::string roster = encode_roster(texts);
  for (Joined& joined : ranks_)
    if (joined.link) joined.link->send(FrameKind::roster, roster);
  for (Joined& joined : ranks_)
    while (joined.link && !joined.link->flush()) {
      if (deadline_.passed()) time_out();
      pollfd wait = joined.link->waits_for();
      wait_for({&wait, 1}, deadline_.left());
    }
}

std::vector<int> RendezvousServer::missing() const {
  std::vector<int> ranks;
  for (int rank = 1; rank < options_.world_size; ++rank) {
    const Joined& joined = ranks_[static_cast<size_t>(rank)];
    if (all_joined() ? !joined.text : !joined.link) ranks.push_back(rank);
  }
  return ranks;
}

void RendezvousServer::time_out() {
  const std::vector<int> ranks = missing();
  const std::string dropped = acceptor_.dropped() == 0
                                  ? ""
                                  : fmt::format(
                                        "; {} connections were dropped: check that all workers "
                                        "have the same LOCKSTEP_JOB_KEY",
                                        acceptor_.dropped());
  fail({.kind = FailureKind::timeout,
        .ranks = ranks,
        .message = fmt::format("rank{} {} did not {} {}:{} in time ({} of {} ranks did); "
                               "check whether they run and whether they can reach this address{}",
                               ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "),
                               all_joined() ? "send a text to" : "connect to", options_.host,
                               options_.port, options_.world_size - static_cast<int>(ranks.size()),
                               options_.world_size, dropped)});
}

void RendezvousServer::interrupted() {
  const std::string text = "interrupted while " + waiting_for();
  tell_all({.kind = FailureKind::peer_lost, .ranks = {0}, .message = "rank 0 was " + text});
  throw Interrupted("rank 0: " + text);
}

void RendezvousServer::fail(const RendezvousFailure& failure) {
  tell_all(failure);
  failure.raise();
}

void RendezvousServer::tell_all(const RendezvousFailure& failure) {
  const Deadline deadline = Deadline::in(kFarewellSeconds);
  std::vector<FrameLink*> links;
  for (Joined& joined : ranks_)
    if (joined.link) links.push_back(&*joined.link);
  for (Newcomer& newcomer : newcomers_) links.push_back(&newcomer.link);
  for (FrameLink* link : links) link->send(FrameKind::failure, encode(failure));
  for (FrameLink* link : links) {
    // Closing a socket with unread bytes would discard what was sent.
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

std::unique_ptr<Rendezvous> serve_rendezvous(const TcpRendezvousOptions& options) {
  return std::make_unique<RendezvousServer>(options);
}

}  // namespace lockstep::net
