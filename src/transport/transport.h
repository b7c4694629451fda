#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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

/// into = into + from, or whatever a collective combines with, element by element.
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
  /// Nothing: what arrives replaces what is there. May be called on any piece of the message that
  /// begins and ends at a multiple of 64 bytes from its begin (or at its end).
  Combine combine = nullptr;
};

/// Says what a message belongs to. It travels with every message, so that ranks that do not agree
/// on what they are doing find out instead of mixing up data. Its words mean nothing to a
/// transport.
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

/// Memory that lasts as long as somebody holds it.
struct Memory {
  std::shared_ptr<std::byte> data;
  size_t bytes = 0;
};

/// Told of waits that last: once for each that outlasts `seconds`, with the ranks it is for, by
/// their numbers in the job. Nobody to tell: never.
struct StallWatch {
  double seconds = 0;
  std::function<void(const std::vector<int>& late)> tell = nullptr;

  /// The moment at which a wait that begins now has lasted too long.
  Deadline deadline() const { return tell ? Deadline::in(seconds) : Deadline::never(); }
};

class Engine;
class SharedBoard;

/// Carries messages between the ranks of a group. Messages from one rank to another arrive in the
/// order sent. One thread at a time may be in a transport; `abort` may be called from any.
///
/// A peer that died, hung up or fell silent makes the waiting calls of all others throw PeerLost
/// with its rank; a rank that gives up by `abort` makes them throw PeerLost with its reason.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual const char* name() const = 0;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  /// By rank in this group. Errors name ranks by their number in the job.
  virtual const std::vector<Peer>& peers() const = 0;

  /// Sends and receives all of it at once; returns when everything has arrived and what was sent
  /// may be changed. What is sent must not overlap what is received. Throws Disagreement, Timeout
  /// (naming the ranks it waits for), PeerLost.
  virtual void exchange(const Label& label, std::span<const Outgoing> outgoing,
                        std::span<const Incoming> incoming, Deadline deadline) = 0;

  /// Memory from which this transport sends fastest, aligned to 64 bytes at least and zeroed. It
  /// may outlive the transport.
  virtual Memory allocate(size_t bytes) = 0;

  /// Tells all others that this rank gives up, and why. They name `culprit` as lost, a rank by its
  /// number in the job: this one, or whom it lost itself. Afterwards nothing here can be used.
  virtual void abort(const std::string& why, int culprit) noexcept = 0;
  void abort(const std::string& why) noexcept {
    abort(why, peers()[static_cast<size_t>(rank())].rank);
  }

  virtual void watch_stalls(const StallWatch& watch) = 0;

  /// Collective: another transport of the same kind, between the ranks of a rendezvous.
  virtual std::unique_ptr<Transport> connect_again(Rendezvous& rendezvous) const = 0;

  /// Where all ranks see each other's memory; nothing where they do not.
  virtual SharedBoard* shared_board() { return nullptr; }

  /// By rank, the number of its host, where messages inside a host cost less than others; else
  /// nothing.
  virtual const std::vector<int>& hosts() const {
    static const std::vector<int> all_alike;
    return all_alike;
  }

  /// The collectives that a transport brings along; nothing where it brings none.
  virtual Engine* engine() { return nullptr; }
};

}  // namespace lockstep::transport
