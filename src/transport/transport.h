#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "lockstep/error.h"
#include "net/rendezvous.h"

namespace lockstep::transport {

using net::GroupRendezvous;
using net::Peer;
using net::Rendezvous;

/// into = into + from (or min, max), element by element.
using Combine = void (*)(std::byte* into, const std::byte* from, size_t bytes);

struct Outgoing {
  int peer;
  const std::byte* from;
  size_t bytes;
};

struct Incoming {
  int peer;
  std::byte* into;
  size_t bytes;
  /// nullptr: what arrives overwrites `into`. May be called on any piece of the message that begins
  /// and ends at a multiple of 64 bytes from the start (or at the end).
  Combine combine = nullptr;
};

/// Identifies the collective and round of a message. It is sent with every message, so that ranks
/// that call different collectives get an error instead of mixing up data. Transports do not
/// interpret its words.
struct Label {
  std::array<uint64_t, 5> words = {};

  bool operator==(const Label&) const = default;
};

/// A peer's message has another label, or another size, than the one expected here.
class Disagreement : public Error {
 public:
  Disagreement(int from, const Label& label, size_t size, const std::string& message)
      : Error(message), peer(from), theirs(label), bytes(size) {}

  int peer;
  Label theirs;
  size_t bytes;
};

/// Reference-counted memory.
struct Memory {
  std::shared_ptr<std::byte> data;
  size_t bytes = 0;
};

/// A wait that has lasted for some time, as it is when it is looked at.
struct LongWait {
  double before;                 ///< seconds when it was last looked at; 0: not yet
  double seconds;                ///< that it has lasted
  const std::vector<int>& late;  ///< ranks (in the job) that are waited for

  /// Whether it is this old now, and was not when it was last looked at.
  bool reaches(double age) const { return before < age && age <= seconds; }
};

/// `look` is called in every wait that lasts longer than `after` seconds, and then ten times a
/// second, by the thread that waits. What it throws ends the wait. nullptr: it is not called.
struct WaitWatch {
  double after = 0;
  std::function<void(const LongWait& wait)> look = nullptr;
};

/// Where a rank is that waits. Transports do not interpret it.
struct Whereabouts {
  Label label;               ///< of the collective that it is in
  uint64_t collectives = 0;  ///< that it has called so far
};

class DeviceSide;
class Engine;
class SharedBoard;

/// Carries messages between the ranks of a group. Messages from one rank to another arrive in the
/// order sent. One thread at a time may be in a transport; `abort` may be called from any.
///
/// When a peer dies, closes its connection or sends no heartbeat in time, the waiting calls of all
/// other ranks throw PeerLost with its rank. When a rank calls `abort`, they throw PeerLost with
/// its reason.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual const char* name() const = 0;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  /// By rank in this group. Errors name ranks by their number in the job.
  virtual const std::vector<Peer>& peers() const = 0;

  /// Sends and receives all messages at once; returns when everything has arrived and the sent
  /// memory may be changed. Sent and received memory must not overlap. Throws Disagreement, Timeout
  /// (naming the ranks it waits for), PeerLost.
  ///
  /// A transport with a `device` returns when it has put everything into its stream: the memory is
  /// used by what is put there before and after, and by nothing else until `DeviceSide::finish`.
  virtual void exchange(const Label& label, std::span<const Outgoing> outgoing,
                        std::span<const Incoming> incoming, Deadline deadline) = 0;

  /// Memory from which this transport sends fastest, aligned to 64 bytes at least and zeroed. It
  /// may outlive the transport.
  virtual Memory allocate(size_t bytes) = 0;

  /// Tells all other ranks that this rank aborts, and why. Their errors name `culprit` (a rank in
  /// the job) as lost: this rank, or one that it lost itself. Afterwards the transport cannot be
  /// used.
  virtual void abort(const std::string& why, int culprit) noexcept = 0;
  void abort(const std::string& why) noexcept {
    abort(why, peers()[static_cast<size_t>(rank())].rank);
  }

  /// Throws PeerLost if a peer is known to be lost or to have aborted. Does not wait.
  virtual void check_peers() = 0;

  virtual void watch_waits(const WaitWatch& watch) = 0;

  /// Tells all other ranks where this rank is, besides all messages and without waiting; and what a
  /// rank has told last. Call them while this rank waits.
  virtual void tell_whereabouts(const Whereabouts& mine) = 0;
  virtual std::optional<Whereabouts> whereabouts_of(int peer) = 0;

  /// Collective: another transport of the same kind, between the ranks of a rendezvous.
  virtual std::unique_ptr<Transport> connect_again(Rendezvous& rendezvous) const = 0;

  /// For transports whose ranks see each other's memory; else nullptr.
  virtual SharedBoard* shared_board() { return nullptr; }

  /// The host number of each rank, if messages inside a host are cheaper than others; else empty.
  virtual const std::vector<int>& hosts() const {
    static const std::vector<int> all_alike;
    return all_alike;
  }

  /// So many bytes of a large reduction are best carried at a time, because what moves them are
  /// processors with caches, and not a network; 0: all at once. It is the same on all ranks.
  virtual size_t bytes_at_a_time() const { return 0; }

  /// The transport's own all-reduce; nullptr if it has none.
  virtual Engine* engine() { return nullptr; }

  /// For transports that carry the memory of a device; else nullptr.
  virtual DeviceSide* device() { return nullptr; }

  /// The transport between the same ranks that carries host memory.
  virtual Transport& for_host_memory() { return *this; }
};

}  // namespace lockstep::transport
