#include "transport/tcp/tcp.h"

#include <fmt/ranges.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "base/clock.h"
#include "transport/own_memory.h"
#include "transport/tcp/heart.h"
#include "transport/tcp/tcp_mesh.h"
#include "transport/tcp/tcp_stream.h"
#include "transport/watched_wait.h"

// Words: a message larger than kStripe is cut into `parts`, one for every stream of its pair, each
// beginning at a multiple of 64 bytes. A stream is `active` in an exchange while it has something
// to send or to receive. Invariant: what a stream reads is always the next message expected of it,
// so that messages of later exchanges stay in the sockets, and order needs no bookkeeping.
namespace lockstep::transport {
namespace {

constexpr size_t kStripe = size_t{512} << 10;
constexpr size_t kStaging = size_t{256} << 10;
// Of a reduction on one host: what a rank adds is still in its caches when it sends it.
constexpr size_t kBytesAtATimeOfRank = size_t{1} << 20;
// A sleep and a wake-up cost tens of microseconds: look again for that long before sleeping.
constexpr double kSpinSeconds = 50e-6;
constexpr int kPassesBetweenChecks = 64;

struct StreamPart {
  size_t begin;
  size_t bytes;
};

// Part number `index` of `count`, in whole blocks of 64 bytes.
StreamPart part_of(size_t bytes, size_t index, size_t count) {
  const size_t blocks = (bytes + 63) / 64;
  const size_t each = (blocks + count - 1) / count * 64;
  const size_t begin = std::min(bytes, index * each);
  return {begin, std::min(bytes, begin + each) - begin};
}

void set_congestion_control(const net::Descriptor& socket, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(),
                   static_cast<socklen_t>(name.size())) == 0)
      return;
}

class Tcp : public Transport {
 public:
  Tcp(int rank, Mesh mesh, const TcpOptions& options);

  const char* name() const override { return "tcp"; }
  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(peers_.size()); }
  const std::vector<Peer>& peers() const override { return peers_; }
  void exchange(const Label& label, std::span<const Outgoing> outgoing,
                std::span<const Incoming> incoming, Deadline deadline) override;
  Memory allocate(size_t bytes) override { return own_memory(bytes); }
  size_t bytes_at_a_time() const override {
    return is_one_host_ ? peers_.size() * kBytesAtATimeOfRank : 0;
  }
  void check_peers() override {
    if (heart_.troubled()) heart_.raise_loss();
  }
  void watch_waits(const WaitWatch& watch) override { watch_ = watch; }
  void tell_whereabouts(const Whereabouts& mine) override { heart_.tell_whereabouts(mine); }
  std::optional<Whereabouts> whereabouts_of(int peer) override {
    return heart_.whereabouts_of(peer);
  }
  void abort(const std::string& why, int culprit) noexcept override;
  std::unique_ptr<Transport> connect_again(Rendezvous& rendezvous) const override {
    return connect_tcp(rendezvous, options_);
  }

 private:
  void enlist(const Label& label, std::span<const Outgoing> outgoing,
              std::span<const Incoming> incoming);
  std::span<TcpStream> streams_with(int peer, size_t bytes);
  void run(Deadline deadline);
  bool pass();
  void check(TcpStream::Moved outcome, const TcpStream& stream, bool& moved);
  void wait(Deadline deadline);
  std::vector<int> late_ranks() const;
  [[noreturn]] void time_out() const;

  const int rank_;
  const std::vector<Peer> peers_;
  const bool may_spin_;
  const bool is_one_host_;
  const TcpOptions options_;
  /// By rank, then by stream.
  std::vector<std::vector<TcpStream>> streams_;
  std::vector<TcpStream*> active_;
  std::vector<pollfd> waits_;
  std::vector<std::byte> staging_;
  std::optional<Stopwatch> idle_;
  WaitWatch watch_;
  /// A failed exchange leaves incomplete messages in the sockets.
  bool broken_ = false;
  Heart heart_;
};

Tcp::Tcp(int rank, Mesh mesh, const TcpOptions& options)
    : rank_(rank),
      peers_(std::move(mesh.peers)),
      may_spin_(mesh.neighbours <= sysconf(_SC_NPROCESSORS_ONLN)),
      is_one_host_(mesh.neighbours == world_size()),
      options_(options),
      streams_(peers_.size()),
      staging_(kStaging),
      heart_(rank, peers_, std::move(mesh.control), options.silence_seconds) {
  for (size_t peer = 0; peer < peers_.size(); ++peer)
    for (net::Descriptor& socket : mesh.data[peer]) {
      set_congestion_control(socket, options.congestion);
      streams_[peer].emplace_back(std::move(socket), static_cast<int>(peer), &peers_[peer]);
    }
}

void Tcp::exchange(const Label& label, std::span<const Outgoing> outgoing,
                   std::span<const Incoming> incoming, Deadline deadline) {
  if (heart_.troubled()) heart_.raise_loss();
  if (broken_)
    throw Error(fmt::format("rank {}: an earlier exchange over tcp failed; connect again", rank_));
  broken_ = true;
  enlist(label, outgoing, incoming);
  run(deadline);
  broken_ = false;
}

std::span<TcpStream> Tcp::streams_with(int peer, size_t bytes) {
  if (peer < 0 || peer >= world_size() || peer == rank_)
    throw Error(fmt::format("rank {} cannot exchange with rank {} in a world of {}", rank_, peer,
                            world_size()));
  std::vector<TcpStream>& streams = streams_[static_cast<size_t>(peer)];
  return std::span(streams).first(bytes > kStripe ? streams.size() : 1);
}

void Tcp::enlist(const Label& label, std::span<const Outgoing> outgoing,
                 std::span<const Incoming> incoming) {
  for (std::vector<TcpStream>& streams : streams_)
    for (TcpStream& stream : streams) stream.clear();
  active_.clear();
  const auto take = [&](TcpStream& stream, const auto& message) {
    if (stream.done()) active_.push_back(&stream);
    stream.add(message);
  };
  for (const Outgoing& message : outgoing) {
    const std::span<TcpStream> streams = streams_with(message.peer, message.bytes);
    heart_.check_present(message.peer);
    for (size_t i = 0; i < streams.size(); ++i) {
      const StreamPart part = part_of(message.bytes, i, streams.size());
      const MessageHeader header{label, message.bytes, static_cast<uint32_t>(i)};
      take(streams[i], TcpStream::Sending{header, message.from + part.begin, part.bytes});
    }
  }
  for (const Incoming& message : incoming) {
    const std::span<TcpStream> streams = streams_with(message.peer, message.bytes);
    for (size_t i = 0; i < streams.size(); ++i) {
      const StreamPart part = part_of(message.bytes, i, streams.size());
      const MessageHeader header{label, message.bytes, static_cast<uint32_t>(i)};
      take(streams[i],
           TcpStream::Receiving{header, message.into + part.begin, part.bytes, message.combine});
    }
  }
}

void Tcp::run(Deadline deadline) {
  int passes = 0;
  WatchedWait watched(watch_);
  while (!active_.empty()) {
    const bool moved = pass();
    if (moved) {
      idle_.reset();
      watched.restart();
    }
    if (moved && ++passes % kPassesBetweenChecks != 0) continue;
    if (active_.empty()) return;
    if (heart_.troubled()) heart_.raise_loss();
    if (deadline.passed()) time_out();
    watched.look([this] { return late_ranks(); });
    if (!moved) wait(deadline.or_in(watched.left()));
  }
}

bool Tcp::pass() {
  bool moved = false;
  for (TcpStream* stream : active_) {
    if (stream->sends()) check(stream->send(), *stream, moved);
    if (stream->receives()) check(stream->receive(staging_), *stream, moved);
  }
  std::erase_if(active_, [](const TcpStream* stream) { return stream->done(); });
  return moved;
}

void Tcp::check(TcpStream::Moved outcome, const TcpStream& stream, bool& moved) {
  if (outcome == TcpStream::Moved::broken) heart_.raise_broken(stream.rank());
  if (outcome == TcpStream::Moved::moved) moved = true;
}

void Tcp::wait(Deadline deadline) {
  if (may_spin_) {
    if (!idle_) idle_.emplace();
    if (idle_->seconds() < kSpinSeconds) return;
  }
  waits_.assign(1, {.fd = heart_.alarm(), .events = POLLIN});
  for (const TcpStream* stream : active_) waits_.push_back(stream->waits_for());
  net::wait_for(waits_, deadline.left());
}

std::vector<int> Tcp::late_ranks() const {
  std::set<int> ranks;
  for (const TcpStream* stream : active_) ranks.insert(stream->peer().rank);
  return {ranks.begin(), ranks.end()};
}

void Tcp::time_out() const {
  std::set<std::string> names;
  for (const TcpStream* stream : active_) names.insert(stream->peer().text());
  throw Timeout(late_ranks(),
                fmt::format("rank {} timed out waiting for {}; check what {} doing",
                            peers_[static_cast<size_t>(rank_)].rank, fmt::join(names, ", "),
                            names.size() == 1 ? "it is" : "they are"));
}

void Tcp::abort(const std::string& why, int culprit) noexcept {
  try {
    heart_.give_up(why, culprit);
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for a message; the heartbeat timeout
                   // will tell
  }
}

}  // namespace

std::unique_ptr<Transport> connect_tcp(Rendezvous& rendezvous, const TcpOptions& options) {
  return std::make_unique<Tcp>(rendezvous.rank(), form_mesh(rendezvous, options), options);
}

TcpOptions tcp_options(const TransportOptions& options) {
  return {.key = options.key,
          .streams = options.streams,
          .silence_seconds = options.silence_seconds,
          .connect_seconds = options.connect_seconds,
          .stop = options.stop};
}

namespace {

const bool tcp_added =
    transports().add({"tcp", "TCP, on any hosts", TransportRow::Meeting::tcp,
                      [](Rendezvous& rendezvous, const TransportOptions& options) {
                        return connect_tcp(rendezvous, tcp_options(options));
                      }});

}  // namespace

}  // namespace lockstep::transport
