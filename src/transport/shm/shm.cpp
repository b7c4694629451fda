// Messages through shared memory. Each ordered pair of ranks has a queue of *parcels*, each of
// which gives the place of a message in the sender's heap; the receiver combines or copies the
// message directly from there and removes the parcel. Data outside the sender's heap is copied
// there first. A sender is done when all its parcels are removed; then it may change what it sent.
#include "transport/shm/shm.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "transport/shm/shared_board.h"
#include "transport/shm/shared_segment.h"
#include "transport/shm/shared_wait.h"
#include "transport/transports.h"

namespace lockstep::transport {
namespace {

class Shm : public Transport {
 public:
  Shm(std::shared_ptr<SharedSegment> segment, const ShmOptions& options)
      : segment_(std::move(segment)),
        wait_(segment_, options.silence_seconds),
        options_(options),
        board_(segment_, wait_) {}

  const char* name() const override { return "shm"; }
  int rank() const override { return segment_->rank(); }
  int world_size() const override { return segment_->world_size(); }
  const std::vector<Peer>& peers() const override { return segment_->peers(); }
  Memory allocate(size_t bytes) override { return SharedSegment::allocate(segment_, bytes); }
  std::unique_ptr<Transport> connect_again(Rendezvous& rendezvous) const override {
    return connect_shm(rendezvous, options_);
  }
  SharedBoard* shared_board() override { return &board_; }

  void exchange(const Label& label, std::span<const Outgoing> outgoing,
                std::span<const Incoming> incoming, Deadline deadline) override;
  void check_peers() override { wait_.check_peers(); }
  void watch_waits(const WaitWatch& watch) override { wait_.watch_waits(watch); }
  void tell_whereabouts(const Whereabouts& mine) override { wait_.tell_whereabouts(mine); }
  std::optional<Whereabouts> whereabouts_of(int peer) override {
    return wait_.whereabouts_of(peer);
  }

  void abort(const std::string& why, int culprit) noexcept override {
    try {
      wait_.give_up(culprit, fmt::format("{} aborted: {}", segment_->peer(rank()).text(), why));
    } catch (...) {  // out of memory for the text: the others will notice that this process ends
    }
  }

 private:
  std::vector<Parcel> stage(std::span<const Outgoing> outgoing, const Label& label);
  bool post(std::span<const Outgoing> outgoing, const std::vector<Parcel>& parcels,
            std::vector<bool>& posted);
  bool take(const Label& label, std::span<const Incoming> incoming, std::vector<bool>& taken);
  void take_parcel(const Label& label, const Incoming& message, Queue& queue);
  bool is_full(int peer) const {
    const Queue& queue = segment_->queue(rank(), peer);
    return queue.posted.load() - queue.taken.load() == kQueueLength;
  }

  const std::shared_ptr<SharedSegment> segment_;
  SharedWait wait_;
  const ShmOptions options_;
  SharedBoard board_;
  Memory copies_;  ///< of what is sent from outside the heap
};

// Copies data that is not in the heap into it.
std::vector<Parcel> Shm::stage(std::span<const Outgoing> outgoing, const Label& label) {
  size_t elsewhere = 0;
  for (const Outgoing& message : outgoing)
    if (!segment_->offset_of(message.from)) elsewhere += message.bytes;
  if (copies_.bytes < elsewhere) {
    copies_ = {};
    copies_ = allocate(elsewhere);
  }
  std::vector<Parcel> parcels;
  std::byte* copy = copies_.data.get();
  for (const Outgoing& message : outgoing) {
    auto offset = segment_->offset_of(message.from);
    if (!offset && message.bytes > 0) {
      std::memcpy(copy, message.from, message.bytes);
      offset = segment_->offset_of(copy);
      copy += message.bytes;
    }
    parcels.push_back({label, offset.value_or(0), message.bytes});
  }
  return parcels;
}

// Posts messages while there is room; messages to the same peer stay in order.
bool Shm::post(std::span<const Outgoing> outgoing, const std::vector<Parcel>& parcels,
               std::vector<bool>& posted) {
  bool any = false;
  std::vector<bool> blocked(static_cast<size_t>(world_size()));
  for (size_t i = 0; i < outgoing.size(); ++i) {
    const int peer = outgoing[i].peer;
    if (posted[i] || blocked[static_cast<size_t>(peer)]) continue;
    if (is_full(peer)) {
      blocked[static_cast<size_t>(peer)] = true;
      continue;
    }
    Queue& queue = segment_->queue(rank(), peer);
    const uint64_t place = queue.posted.load();
    queue.parcels[place % kQueueLength] = parcels[i];
    queue.posted.store(place + 1);
    wait_.wake(peer);
    posted[i] = any = true;
  }
  return any;
}

bool Shm::take(const Label& label, std::span<const Incoming> incoming, std::vector<bool>& taken) {
  bool any = false;
  std::vector<bool> blocked(static_cast<size_t>(world_size()));
  for (size_t i = 0; i < incoming.size(); ++i) {
    const int peer = incoming[i].peer;
    if (taken[i] || blocked[static_cast<size_t>(peer)]) continue;
    Queue& queue = segment_->queue(peer, rank());
    if (queue.posted.load() == queue.taken.load()) {
      blocked[static_cast<size_t>(peer)] = true;
      continue;
    }
    take_parcel(label, incoming[i], queue);
    taken[i] = any = true;
  }
  return any;
}

void Shm::take_parcel(const Label& label, const Incoming& message, Queue& queue) {
  const uint64_t place = queue.taken.load();
  const Parcel& parcel = queue.parcels[place % kQueueLength];
  if (parcel.label != label || parcel.bytes != message.bytes)
    throw Disagreement(
        message.peer, parcel.label, parcel.bytes,
        fmt::format("rank {} sent another message than rank {} expected", message.peer, rank()));
  const std::byte* const from = segment_->address(message.peer, parcel.offset);
  if (message.combine != nullptr)
    message.combine(message.into, from, message.bytes);
  else if (message.bytes > 0)
    std::memcpy(message.into, from, message.bytes);
  queue.taken.store(place + 1);
  wait_.wake(message.peer);
}

void Shm::exchange(const Label& label, std::span<const Outgoing> outgoing,
                   std::span<const Incoming> incoming, Deadline deadline) {
  const std::vector<Parcel> parcels = stage(outgoing, label);
  std::vector<bool> posted(outgoing.size());
  std::vector<bool> taken(incoming.size());

  const auto pending = [](const std::vector<bool>& done) {
    return std::find(done.begin(), done.end(), false) != done.end();
  };
  // A rank is late when it has not taken what was posted, or not posted what is to be taken.
  const auto late = [&](int peer) {
    const Queue& out = segment_->queue(rank(), peer);
    if (out.posted.load() != out.taken.load()) return true;
    for (size_t i = 0; i < incoming.size(); ++i)
      if (!taken[i] && incoming[i].peer == peer) return true;
    return false;
  };
  // A rank that has entered a collective in shared memory while this rank waits for its message
  // calls another collective: otherwise it would have sent the message before.
  const auto stray = [&]() -> std::optional<int> {
    for (int peer = 0; peer < world_size(); ++peer) {
      const Queue& in = segment_->queue(peer, rank());
      if (board_.entered_next(peer) != nullptr && late(peer) && in.posted.load() == in.taken.load())
        return peer;
    }
    return std::nullopt;
  };
  const auto can_go_on = [&] {
    for (size_t i = 0; i < outgoing.size(); ++i)
      if (!posted[i] && !is_full(outgoing[i].peer)) return true;
    for (size_t i = 0; i < incoming.size(); ++i) {
      const Queue& in = segment_->queue(incoming[i].peer, rank());
      if (!taken[i] && in.posted.load() != in.taken.load()) return true;
    }
    return false;
  };
  const auto all_taken = [&] {
    return std::all_of(outgoing.begin(), outgoing.end(), [&](const Outgoing& message) {
      const Queue& out = segment_->queue(rank(), message.peer);
      return out.posted.load() == out.taken.load();
    });
  };

  const auto wait_until = [&](const auto& ready) {
    wait_.until([&] { return ready() || stray(); }, late, deadline);
    const auto peer = ready() ? std::nullopt : stray();
    if (peer)
      throw Disagreement(*peer, *board_.entered_next(*peer), 0,
                         "a rank uses shared memory while others send messages");
  };

  while (pending(posted) || pending(taken)) {
    const bool sent = post(outgoing, parcels, posted);
    const bool received = take(label, incoming, taken);
    if (!sent && !received) wait_until(can_go_on);
  }
  wait_until(all_taken);
}

}  // namespace

std::unique_ptr<Transport> connect_shm(Rendezvous& rendezvous, const ShmOptions& options) {
  auto segment = SharedSegment::open(rendezvous, options.host);
  auto transport = std::make_unique<Shm>(segment, options);
  // All ranks send heartbeats before any rank checks for them.
  rendezvous.gather("");
  return transport;
}

namespace {

const bool shm_added = transports().add(
    {"shm", "shared memory, on one host", TransportRow::Meeting::tcp,
     [](Rendezvous& rendezvous, const TransportOptions& options) {
       return connect_shm(rendezvous, {.silence_seconds = options.silence_seconds});
     }});

}  // namespace

}  // namespace lockstep::transport
