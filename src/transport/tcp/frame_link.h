#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "transport/tcp/socket.h"
#include "transport/tcp/wire.h"

namespace lockstep::transport {

struct Frame {
  FrameKind kind;
  std::string payload;

  Bytes bytes() const { return std::as_bytes(std::span(payload)); }
};

/// Frames over a connection that has passed its handshake. Never waits.
class FrameLink {
 public:
  explicit FrameLink(Descriptor socket) : socket_(std::move(socket)) {}

  /// Queues a frame and sends what goes.
  void send(FrameKind kind, const std::string& payload);
  /// True when nothing is left to send.
  bool flush();

  /// The next whole frame that has come, if any.
  std::optional<Frame> receive();

  /// The other end hung up, or sent what is no frame: nothing more will come.
  bool closed() const { return closed_; }

  /// Says that nothing more will be sent, so that the other end can read all before it sees the
  /// end.
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

}  // namespace lockstep::transport
