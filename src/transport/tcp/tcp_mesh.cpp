#include "transport/tcp/tcp_mesh.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <utility>

#include "base/host.h"
#include "lockstep/error.h"
#include "net/acceptor.h"
#include "net/dial.h"
#include "net/tcp_rendezvous.h"
#include "transport/tcp/wire.h"

// Of two ranks, the higher connects to the lower. A rank makes and accepts all its connections
// concurrently in one loop, so that no order of arrival can cause a deadlock.
namespace lockstep::transport {
namespace {

constexpr size_t kMostAddresses = 16;

bool share_processors(const Endpoint& a, const Endpoint& b) {
  return a.kernel == b.kernel;
}

bool share_loopback(const Endpoint& a, const Endpoint& b) {
  return a.network == b.network;
}

bool is_loopback(const std::string& address) {
  return address == "::1" || address.starts_with("127.");
}

std::vector<std::string> own_addresses(const Rendezvous& rendezvous, const TcpOptions& options) {
  if (!options.bind.empty()) return {options.bind};
  std::vector<std::string> addresses;
  if (!rendezvous.address().empty()) addresses.push_back(rendezvous.address());
  for (const std::string& address : net::interface_addresses())
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end() &&
        addresses.size() < kMostAddresses)
      addresses.push_back(address);
  return addresses;
}

uint64_t random_session() {
  uint64_t session = 0;
  std::memcpy(&session, net::random_nonce().data(), sizeof session);
  return session;
}

class MeshBuilder {
 public:
  MeshBuilder(int rank, const std::vector<Endpoint>& endpoints, const TcpOptions& options);

  /// "", or why it failed. Throws Interrupted.
  std::string build(net::Descriptor listener);
  std::vector<int> unreached() const;
  Mesh take();

 private:
  void dial_lower();
  void dial(const Endpoint& endpoint, const net::Identity& identity);
  bool expects(const net::Identity& identity) const;
  net::Descriptor& place(uint32_t peer, const net::Identity& identity);
  bool complete() const { return unreached().empty(); }
  void wait(const net::Acceptor& acceptor, const Deadline& deadline) const;

  const int rank_;
  const std::vector<Endpoint>& endpoints_;
  const TcpOptions& options_;
  std::list<net::Dial> dials_;
  Mesh mesh_;
};

MeshBuilder::MeshBuilder(int rank, const std::vector<Endpoint>& endpoints,
                         const TcpOptions& options)
    : rank_(rank), endpoints_(endpoints), options_(options) {
  const Endpoint& own = endpoints[static_cast<size_t>(rank)];
  mesh_.neighbours = 0;
  for (size_t peer = 0; peer < endpoints.size(); ++peer) {
    const Endpoint& endpoint = endpoints[peer];
    mesh_.peers.push_back(
        {static_cast<int>(endpoint.job_rank), endpoint.host, static_cast<int>(endpoint.pid)});
    mesh_.data.emplace_back(static_cast<int>(peer) == rank ? 0 : own.streams);
    mesh_.control.emplace_back();
    if (share_processors(endpoint, own)) ++mesh_.neighbours;
  }
}

Mesh MeshBuilder::take() {
  for (size_t peer = 0; peer < endpoints_.size(); ++peer)
    if (share_loopback(endpoints_[peer], endpoints_[static_cast<size_t>(rank_)]))
      for (const net::Descriptor& socket : mesh_.data[peer]) net::enlarge_buffers(socket.get());
  return std::move(mesh_);
}

void MeshBuilder::dial_lower() {
  for (int peer = 0; peer < rank_; ++peer) {
    const Endpoint& endpoint = endpoints_[static_cast<size_t>(peer)];
    net::Identity identity{.session = endpoints_[0].session,
                           .from = static_cast<uint32_t>(rank_),
                           .to = static_cast<uint32_t>(peer),
                           .kind = net::ConnectionKind::control};
    dial(endpoint, identity);
    identity.kind = net::ConnectionKind::data;
    for (; identity.stream < endpoint.streams; ++identity.stream) dial(endpoint, identity);
  }
}

void MeshBuilder::dial(const Endpoint& endpoint, const net::Identity& identity) {
  std::vector<std::string> hosts = endpoint.addresses;
  if (!share_loopback(endpoint, endpoints_[static_cast<size_t>(rank_)]))
    std::erase_if(hosts, is_loopback);
  if (hosts.empty()) hosts = {endpoint.host};
  dials_.emplace_back(hosts, std::vector{endpoint.port}, options_.key, identity,
                      net::Dial::WhenRefused::try_next);
}

bool MeshBuilder::expects(const net::Identity& identity) const {
  const bool control = identity.kind == net::ConnectionKind::control && identity.stream == 0;
  const bool data = identity.kind == net::ConnectionKind::data &&
                    identity.stream < static_cast<uint32_t>(options_.streams);
  return identity.session == endpoints_[0].session && identity.to == static_cast<uint32_t>(rank_) &&
         identity.from > identity.to && identity.from < endpoints_.size() && (control || data);
}

net::Descriptor& MeshBuilder::place(uint32_t peer, const net::Identity& identity) {
  return identity.kind == net::ConnectionKind::control ? mesh_.control[peer]
                                                       : mesh_.data[peer][identity.stream];
}

std::vector<int> MeshBuilder::unreached() const {
  std::vector<int> ranks;
  for (size_t peer = 0; peer < endpoints_.size(); ++peer) {
    const std::vector<net::Descriptor>& data = mesh_.data[peer];
    const bool there = mesh_.control[peer] &&
                       std::all_of(data.begin(), data.end(), [](auto& one) { return bool{one}; });
    if (!there && static_cast<int>(peer) != rank_) ranks.push_back(static_cast<int>(peer));
  }
  return ranks;
}

void MeshBuilder::wait(const net::Acceptor& acceptor, const Deadline& deadline) const {
  std::vector<pollfd> waits = {{.fd = acceptor.descriptor(), .events = POLLIN},
                               {.fd = options_.stop, .events = POLLIN}};
  double seconds = std::min(deadline.left(), acceptor.seconds_to_next());
  for (const net::Dial& dial : dials_) {
    waits.push_back(dial.waits_for());
    seconds = std::min(seconds, dial.seconds_to_next());
  }
  net::wait_for(waits, seconds);
}

std::string MeshBuilder::build(net::Descriptor listener) {
  const Deadline deadline = Deadline::in(options_.connect_seconds);
  net::Acceptor acceptor(
      std::move(listener), options_.key,
      [this](const net::Identity& identity) { return expects(identity); }, options_.log);
  dial_lower();
  while (true) {
    for (net::Acceptor::Connection& connection : acceptor.serve())
      place(connection.identity.from, connection.identity) = std::move(connection.socket);
    for (auto dial = dials_.begin(); dial != dials_.end();) {
      if (!dial->advance()) {
        ++dial;
        continue;
      }
      place(dial->identity().to, dial->identity()) = dial->take();
      dial = dials_.erase(dial);
    }
    if (complete()) return "";
    if (net::is_readable(options_.stop))
      throw net::Interrupted(fmt::format("rank {}: interrupted while connecting with rank{} {}",
                                         rank_, unreached().size() == 1 ? "" : "s",
                                         fmt::join(unreached(), ", ")));
    if (deadline.passed()) break;
    wait(acceptor, deadline);
  }
  std::string trouble = dials_.empty() ? "they did not connect" : dials_.front().last_error();
  return fmt::format(
      "rank {} ({}) could not connect with rank{} {} within {:.0f} s ({}); check firewalls and "
      "which interface the hosts share",
      rank_, endpoints_[static_cast<size_t>(rank_)].host, unreached().size() == 1 ? "" : "s",
      fmt::join(unreached(), ", "), options_.connect_seconds, trouble);
}

std::vector<Endpoint> exchange_endpoints(Rendezvous& rendezvous, const TcpOptions& options,
                                         uint16_t port) {
  const Endpoint own{.job_rank = static_cast<uint32_t>(rendezvous.job_rank()),
                     .host = host_name(),
                     .kernel = kernel_identity(),
                     .network = network_identity(),
                     .pid = static_cast<uint32_t>(getpid()),
                     .port = port,
                     .streams = static_cast<uint32_t>(options.streams),
                     .session = random_session(),
                     .addresses = own_addresses(rendezvous, options)};
  std::vector<Endpoint> endpoints;
  for (const std::string& text : rendezvous.gather(encode(own))) {
    const std::optional<Endpoint> endpoint = parse_endpoint(std::as_bytes(std::span(text)));
    const size_t rank = endpoints.size();
    if (!endpoint)
      throw Mismatch(
          "rank {} does not set up tcp as rank {} does; start all workers with the same "
          "transport and the same version of Lockstep",
          rank, rendezvous.rank());
    if (endpoint->streams != (endpoints.empty() ? endpoint->streams : endpoints[0].streams))
      throw Mismatch(
          "rank {} uses {} streams for tcp, but rank 0 uses {}; give all workers the same number",
          rank, endpoint->streams, endpoints[0].streams);
    endpoints.push_back(*endpoint);
  }
  return endpoints;
}

}  // namespace

Mesh form_mesh(Rendezvous& rendezvous, const TcpOptions& options) {
  if (options.streams < 1 || options.streams > 64)
    throw BadInput("{} streams for tcp: expected 1 to 64", options.streams);
  if (!(options.silence_seconds >= 0.1))
    throw BadInput("heartbeat timeout of {} s: expected at least 0.1", options.silence_seconds);
  net::Descriptor listener = net::listen_at(options.bind, 0);
  const uint16_t port = net::local_address(listener.get()).port();
  const std::vector<Endpoint> endpoints = exchange_endpoints(rendezvous, options, port);
  MeshBuilder builder(rendezvous.rank(), endpoints, options);
  net::RendezvousFailure own{.kind = net::FailureKind::timeout};
  try {
    own.message = builder.build(std::move(listener));
  } catch (const net::Interrupted&) {
    throw;
  } catch (const Error& error) {
    own.message = fmt::format("rank {}: {}", rendezvous.rank(), error.what());
  }
  own.ranks = builder.unreached();
  // All ranks learn of a failure on any rank before any of them continues.
  for (const std::string& text : rendezvous.gather(encode(own)))
    if (const auto failure = net::parse_failure(std::as_bytes(std::span(text))))
      if (!failure->message.empty()) failure->raise();
  return builder.take();
}

}  // namespace lockstep::transport
