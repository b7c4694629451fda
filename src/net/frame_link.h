#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "net/socket.h"
#include "net/wire.h"

namespace lockstep::net {

struct Frame {
  FrameKind kind;
  std::string payload;

  Bytes bytes() const { return std::as_bytes(std::span(payload)); }
};

/// Sends and receives frames over a connection that has passed its handshake. Never waits.
class FrameLink {
 public:
  explicit FrameLink(Descriptor socket) : socket_(std::move(socket)) {}

  /// Queues a frame and sends as much as the socket takes.
  void send(FrameKind kind, const std::string& payload);
  /// True when nothing is left to send.
  bool flush();

  /// The next whole frame that has arrived, if any.
  std::optional<Frame> receive();

  /// The other end closed the connection or sent malformed bytes: nothing more will arrive.
  bool closed() const { return closed_; }

  /// Closes this end for sending: the other end reads what was sent, then sees the end.
  void finish();

  int descriptor() const { return socket_.get(); }
  pollfd waits_for() const;

 private:
  bool fill(std::string& into, size_t size);

  Descriptor socket_;
  std::string outgoing_;
  size_t sent_ = 0;
  std::string header_;
  std::optional<FrameHeader> arriving_;
  std::string payload_;
  bool closed_ = false;
};

}  // namespace lockstep::net
