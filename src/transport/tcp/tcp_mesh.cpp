#include "transport/tcp/tcp_mesh.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <utility>

#include "lockstep/error.h"
#include "transport/host.h"
#include "transport/tcp/dial.h"
#include "transport/tcp/meeting_ends.h"

// Who connects: of two ranks, the higher calls the lower. All calls and all answers of a rank go on
// at once in one loop, so that no order of arrival makes ranks wait for each other in a circle.
namespace lockstep::transport {
namespace {

constexpr size_t kMostAddresses = 16;

bool share_processors(const Card& a, const Card& b) {
  return a.kernel == b.kernel;
}

bool share_loopback(const Card& a, const Card& b) {
  return a.network == b.network;
}

bool is_loopback(const std::string& address) {
  return address == "::1" || address.starts_with("127.");
}

std::vector<std::string> own_addresses(const Rendezvous& rendezvous, const TcpOptions& options) {
  if (!options.bind.empty()) return {options.bind};
  std::vector<std::string> addresses;
  if (!rendezvous.address().empty()) addresses.push_back(rendezvous.address());
  for (const std::string& address : interface_addresses())
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end() &&
        addresses.size() < kMostAddresses)
      addresses.push_back(address);
  return addresses;
}

uint64_t random_session() {
  uint64_t session = 0;
  std::memcpy(&session, random_nonce().data(), sizeof session);
  return session;
}

class MeshBuilder {
 public:
  MeshBuilder(int rank, const std::vector<Card>& cards, const TcpOptions& options);

  /// Nothing, or why it cannot be done.
  std::string build(Descriptor listener);
  std::vector<int> unreached() const;
  Mesh take();

 private:
  void dial_lower();
  void dial(const Card& card, const Identity& identity);
  bool expects(const Identity& identity) const;
  Descriptor& place(uint32_t peer, const Identity& identity);
  bool complete() const { return unreached().empty(); }
  void wait(const Doorman& doorman, const Deadline& deadline) const;

  const int rank_;
  const std::vector<Card>& cards_;
  const TcpOptions& options_;
  std::list<Dial> dials_;
  Mesh mesh_;
};

MeshBuilder::MeshBuilder(int rank, const std::vector<Card>& cards, const TcpOptions& options)
    : rank_(rank), cards_(cards), options_(options) {
  const Card& own = cards[static_cast<size_t>(rank)];
  mesh_.neighbours = 0;
  for (size_t peer = 0; peer < cards.size(); ++peer) {
    const Card& card = cards[peer];
    mesh_.peers.push_back({static_cast<int>(card.job_rank), card.host, static_cast<int>(card.pid)});
    mesh_.data.emplace_back(static_cast<int>(peer) == rank ? 0 : own.streams);
    mesh_.control.emplace_back();
    if (share_processors(card, own)) ++mesh_.neighbours;
  }
}

Mesh MeshBuilder::take() {
  for (size_t peer = 0; peer < cards_.size(); ++peer)
    if (share_loopback(cards_[peer], cards_[static_cast<size_t>(rank_)]))
      for (const Descriptor& socket : mesh_.data[peer]) suit_same_machine(socket.get());
  return std::move(mesh_);
}

void MeshBuilder::dial_lower() {
  for (int peer = 0; peer < rank_; ++peer) {
    const Card& card = cards_[static_cast<size_t>(peer)];
    Identity identity{.session = cards_[0].session,
                      .from = static_cast<uint32_t>(rank_),
                      .to = static_cast<uint32_t>(peer),
                      .purpose = Purpose::control};
    dial(card, identity);
    identity.purpose = Purpose::data;
    for (; identity.stream < card.streams; ++identity.stream) dial(card, identity);
  }
}

void MeshBuilder::dial(const Card& card, const Identity& identity) {
  std::vector<std::string> hosts = card.addresses;
  if (!share_loopback(card, cards_[static_cast<size_t>(rank_)])) std::erase_if(hosts, is_loopback);
  if (hosts.empty()) hosts = {card.host};
  dials_.emplace_back(hosts, card.port, options_.key, identity, Dial::WhenRefused::try_next);
}

bool MeshBuilder::expects(const Identity& identity) const {
  const bool control = identity.purpose == Purpose::control && identity.stream == 0;
  const bool data = identity.purpose == Purpose::data &&
                    identity.stream < static_cast<uint32_t>(options_.streams);
  return identity.session == cards_[0].session && identity.to == static_cast<uint32_t>(rank_) &&
         identity.from > identity.to && identity.from < cards_.size() && (control || data);
}

Descriptor& MeshBuilder::place(uint32_t peer, const Identity& identity) {
  return identity.purpose == Purpose::control ? mesh_.control[peer]
                                              : mesh_.data[peer][identity.stream];
}

std::vector<int> MeshBuilder::unreached() const {
  std::vector<int> ranks;
  for (size_t peer = 0; peer < cards_.size(); ++peer) {
    const std::vector<Descriptor>& data = mesh_.data[peer];
    const bool there = mesh_.control[peer] &&
                       std::all_of(data.begin(), data.end(), [](auto& one) { return bool{one}; });
    if (!there && static_cast<int>(peer) != rank_) ranks.push_back(static_cast<int>(peer));
  }
  return ranks;
}

void MeshBuilder::wait(const Doorman& doorman, const Deadline& deadline) const {
  std::vector<pollfd> waits = {{.fd = doorman.descriptor(), .events = POLLIN}};
  double seconds = std::min(deadline.left(), doorman.patience());
  for (const Dial& dial : dials_) {
    waits.push_back(dial.waits_for());
    seconds = std::min(seconds, dial.patience());
  }
  wait_for(waits, seconds);
}

std::string MeshBuilder::build(Descriptor listener) {
  const Deadline deadline = Deadline::in(options_.connect_seconds);
  Doorman doorman(
      std::move(listener), options_.key,
      [this](const Identity& identity) { return expects(identity); }, options_.log);
  dial_lower();
  while (true) {
    for (Doorman::Guest& guest : doorman.serve())
      place(guest.identity.from, guest.identity) = std::move(guest.socket);
    for (auto dial = dials_.begin(); dial != dials_.end();) {
      if (!dial->advance()) {
        ++dial;
        continue;
      }
      place(dial->identity().to, dial->identity()) = dial->take();
      dial = dials_.erase(dial);
    }
    if (complete()) return "";
    if (deadline.passed()) break;
    wait(doorman, deadline);
  }
  std::string trouble = dials_.empty() ? "they did not call" : dials_.front().trouble();
  return fmt::format(
      "rank {} ({}) could not connect with rank{} {} in {:.0f} s ({}); check firewalls and which "
      "interface the hosts share",
      rank_, cards_[static_cast<size_t>(rank_)].host, unreached().size() == 1 ? "" : "s",
      fmt::join(unreached(), ", "), options_.connect_seconds, trouble);
}

std::vector<Card> exchange_cards(Rendezvous& rendezvous, const TcpOptions& options, uint16_t port) {
  const Card own{.job_rank = static_cast<uint32_t>(rendezvous.job_rank()),
                 .host = host_name(),
                 .kernel = kernel_identity(),
                 .network = network_identity(),
                 .pid = static_cast<uint32_t>(getpid()),
                 .port = port,
                 .streams = static_cast<uint32_t>(options.streams),
                 .session = random_session(),
                 .addresses = own_addresses(rendezvous, options)};
  std::vector<Card> cards;
  for (const std::string& text : rendezvous.gather(encode(own))) {
    const std::optional<Card> card = parse_card(std::as_bytes(std::span(text)));
    const size_t rank = cards.size();
    if (!card)
      throw Mismatch(
          "rank {} does not set up tcp as rank {} does; start all workers with one "
          "transport and one version of Lockstep",
          rank, rendezvous.rank());
    if (card->streams != (cards.empty() ? card->streams : cards[0].streams))
      throw Mismatch(
          "rank {} uses {} streams for tcp, and rank 0 uses {}; give all workers one "
          "number",
          rank, card->streams, cards[0].streams);
    cards.push_back(*card);
  }
  return cards;
}

}  // namespace

Mesh form_mesh(Rendezvous& rendezvous, const TcpOptions& options) {
  if (options.streams < 1 || options.streams > 64)
    throw BadInput("{} streams for tcp: expected 1 to 64", options.streams);
  if (!(options.silence_seconds >= 0.1))
    throw BadInput("a peer is lost after {} s of silence: expected at least 0.1",
                   options.silence_seconds);
  Descriptor listener = listen_at(options.bind, 0);
  const uint16_t port = local_address(listener.get()).port();
  const std::vector<Card> cards = exchange_cards(rendezvous, options, port);
  MeshBuilder builder(rendezvous.rank(), cards, options);
  Failure own{.kind = FailureKind::timeout};
  try {
    own.message = builder.build(std::move(listener));
  } catch (const Error& error) {
    own.message = fmt::format("rank {}: {}", rendezvous.rank(), error.what());
  }
  own.ranks = builder.unreached();
  // All know of a failure anywhere, or nobody goes on.
  for (const std::string& text : rendezvous.gather(encode(own)))
    if (const std::optional<Failure> failure = parse_failure(std::as_bytes(std::span(text))))
      if (!failure->message.empty()) raise(*failure);
  return builder.take();
}

}  // namespace lockstep::transport
