// An exchange has two parts: first all messages inside hosts, then all between hosts. This cannot
// deadlock: in the earliest unfinished exchange, a rank in the first part waits only for ranks that
// have reached that part or will reach it, and the same holds for the second part.
#include "transport/hybrid.h"

#include <algorithm>
#include <map>

#include "base/host.h"
#include "transport/mpi.h"
#include "transport/tcp/tcp.h"
#include "transport/transports.h"

namespace lockstep::transport {
namespace {

class Hybrid : public Transport {
 public:
  Hybrid(std::unique_ptr<Transport> inside, std::unique_ptr<Transport> between,
         std::vector<int> hosts, const ShmOptions& options)
      : inside_(std::move(inside)),
        between_(std::move(between)),
        hosts_(std::move(hosts)),
        options_(options) {
    int next = 0;
    for (size_t other = 0; other < hosts_.size(); ++other)
      local_ranks_.push_back(is_local(static_cast<int>(other)) ? next++ : -1);
  }

  const char* name() const override { return "hybrid"; }
  int rank() const override { return between_->rank(); }
  int world_size() const override { return between_->world_size(); }
  const std::vector<Peer>& peers() const override { return between_->peers(); }
  const std::vector<int>& hosts() const override { return hosts_; }
  Memory allocate(size_t bytes) override { return inside_->allocate(bytes); }

  void exchange(const Label& label, std::span<const Outgoing> outgoing,
                std::span<const Incoming> incoming, Deadline deadline) override;

  void abort(const std::string& why, int culprit) noexcept override {
    inside_->abort(why, culprit);
    between_->abort(why, culprit);
  }

  void check_peers() override {
    inside_->check_peers();
    between_->check_peers();
  }

  void watch_waits(const WaitWatch& watch) override {
    inside_->watch_waits(watch);
    between_->watch_waits(watch);
  }

  void tell_whereabouts(const Whereabouts& mine) override {
    inside_->tell_whereabouts(mine);
    between_->tell_whereabouts(mine);
  }
  std::optional<Whereabouts> whereabouts_of(int peer) override {
    return is_local(peer) ? inside_->whereabouts_of(local_ranks_[static_cast<size_t>(peer)])
                          : between_->whereabouts_of(peer);
  }

  std::unique_ptr<Transport> connect_again(Rendezvous& rendezvous) const override {
    return connect_hybrid(rendezvous, between_->connect_again(rendezvous), options_);
  }

 private:
  bool is_local(int other) const {
    return hosts_[static_cast<size_t>(other)] == hosts_[static_cast<size_t>(rank())];
  }
  int job_wide(int local_rank) const {
    return static_cast<int>(std::find(local_ranks_.begin(), local_ranks_.end(), local_rank) -
                            local_ranks_.begin());
  }

  // The messages inside the host, with ranks as they are numbered there, or the others.
  template <typename Message>
  std::vector<Message> local(std::span<const Message> messages) const {
    std::vector<Message> chosen;
    for (const Message& message : messages)
      if (is_local(message.peer)) {
        chosen.push_back(message);
        chosen.back().peer = local_ranks_[static_cast<size_t>(message.peer)];
      }
    return chosen;
  }
  template <typename Message>
  std::vector<Message> remote(std::span<const Message> messages) const {
    std::vector<Message> chosen;
    for (const Message& message : messages)
      if (!is_local(message.peer)) chosen.push_back(message);
    return chosen;
  }

  const std::unique_ptr<Transport> inside_;
  const std::unique_ptr<Transport> between_;
  const std::vector<int> hosts_;  ///< by rank
  const ShmOptions options_;
  std::vector<int> local_ranks_;  ///< by rank; -1 on other hosts
};

void Hybrid::exchange(const Label& label, std::span<const Outgoing> outgoing,
                      std::span<const Incoming> incoming, Deadline deadline) {
  const auto local_out = local(outgoing);
  const auto local_in = local(incoming);
  if (!local_out.empty() || !local_in.empty()) try {
      inside_->exchange(label, local_out, local_in, deadline);
    } catch (const Disagreement& found) {
      throw Disagreement(job_wide(found.peer), found.theirs, found.bytes, found.what());
    }
  const auto remote_out = remote(outgoing);
  const auto remote_in = remote(incoming);
  if (!remote_out.empty() || !remote_in.empty())
    between_->exchange(label, remote_out, remote_in, deadline);
}

}  // namespace

std::unique_ptr<Transport> connect_hybrid(Rendezvous& rendezvous,
                                          std::unique_ptr<Transport> between,
                                          const ShmOptions& options) {
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  for (const std::string& identity :
       rendezvous.gather(options.host.empty() ? host_identity() : options.host))
    hosts.push_back(numbers.try_emplace(identity, static_cast<int>(numbers.size())).first->second);
  std::vector<int> here;
  for (int other = 0; other < rendezvous.world_size(); ++other)
    if (hosts[static_cast<size_t>(other)] == hosts[static_cast<size_t>(rendezvous.rank())])
      here.push_back(other);
  GroupRendezvous neighbours(rendezvous, here);
  return std::make_unique<Hybrid>(connect_shm(neighbours, options), std::move(between), hosts,
                                  options);
}

namespace {

bool are_on_one_host(Rendezvous& all) {
  const std::vector<std::string> hosts = all.gather(host_identity());
  return std::all_of(hosts.begin(), hosts.end(),
                     [&](const std::string& host) { return host == hosts[0]; });
}

using Connect = std::unique_ptr<Transport> (*)(Rendezvous&, const TransportOptions&);

template <Connect between>
std::unique_ptr<Transport> connect(Rendezvous& all, const TransportOptions& options) {
  const ShmOptions inside{.silence_seconds = options.silence_seconds};
  if (are_on_one_host(all)) return connect_shm(all, inside);
  return connect_hybrid(all, between(all, options), inside);
}

std::unique_ptr<Transport> tcp_between(Rendezvous& all, const TransportOptions& options) {
  return connect_tcp(all, tcp_options(options));
}

std::unique_ptr<Transport> mpi_between(Rendezvous& all, const TransportOptions& options) {
  return connect_mpi(all, {.connect_seconds = options.connect_seconds});
}

const bool hybrids_added = transports().add({"hybrid", "shm inside a host, tcp between hosts",
                                             TransportRow::Meeting::tcp, connect<tcp_between>}) &&
                           transports().add({"hybrid-mpi", "shm inside a host, mpi between hosts",
                                             TransportRow::Meeting::mpi, connect<mpi_between>});

}  // namespace

}  // namespace lockstep::transport
