#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "net/socket.h"
#include "transport/tcp/wire.h"
#include "transport/transport.h"

namespace lockstep::transport {

/// One data connection with a peer during one exchange: messages that wait to be sent, and places
/// for those that are to come, each in order. What nobody waits for yet stays in the socket.
class TcpStream {
 public:
  /// A message, or the part of a striped one that goes over this stream.
  struct Sending {
    MessageHeader header;
    const std::byte* from;
    size_t bytes;
  };
  struct Receiving {
    MessageHeader header;
    std::byte* into;
    size_t bytes;
    Combine combine;
  };

  enum class Moved { nothing, moved, broken };

  TcpStream(net::Descriptor socket, int rank, const Peer* peer)
      : socket_(std::move(socket)), rank_(rank), peer_(peer) {}

  void clear();
  void add(const Sending& message);
  void add(const Receiving& message) { receiving_.push_back({message}); }

  /// As much as goes without waiting, up to a piece that leaves room for others.
  Moved send();
  /// The same; `staging` is where what is to be combined passes through. Throws Disagreement.
  Moved receive(std::span<std::byte> staging);

  bool sends() const { return next_sending_ < sending_.size(); }
  bool receives() const { return next_receiving_ < receiving_.size(); }
  bool done() const { return !sends() && !receives(); }

  /// Of the peer, in this group.
  int rank() const { return rank_; }
  const Peer& peer() const { return *peer_; }
  pollfd waits_for() const;

 private:
  struct Out {
    MessageHeaderBytes header;
    const std::byte* from;
    size_t bytes;
    size_t moved = 0;
  };
  struct In {
    Receiving message;
    size_t moved = 0;
    /// What has come of an incomplete block of 64 bytes, and waits for the rest to be combined.
    size_t carried = 0;
  };

  Moved receive_into(In& in, std::span<std::byte> window);
  void combine(In& in, std::span<std::byte> staging, size_t arrived);
  void check(const In& in) const;

  net::Descriptor socket_;
  int rank_;
  const Peer* peer_;
  std::vector<Out> sending_;
  std::vector<In> receiving_;
  size_t next_sending_ = 0;
  size_t next_receiving_ = 0;
  MessageHeaderBytes header_ = {};
  std::array<std::byte, 64> carry_ = {};
};

}  // namespace lockstep::transport
