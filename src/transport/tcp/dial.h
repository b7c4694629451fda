#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/socket.h"

namespace lockstep::transport {

/// An outgoing connection in the making: tries all addresses of all `hosts` in turn, again and
/// again, until one accepts the connection and the handshake. Never waits by itself, so that many
/// can be made at once.
class Dial {
 public:
  /// What to do when someone answers and says no: at the master's address that is for the user to
  /// sort out, but among guessed addresses another may be the right one.
  enum class WhenRefused { give_up, try_next };

  Dial(std::vector<std::string> hosts, uint16_t port, std::string key, const Identity& identity,
       WhenRefused when_refused);

  /// Does what can be done without waiting. True once the connection stands. Throws BadInput when
  /// there is no such host, or someone who says no.
  bool advance();

  /// What `advance` waits for, and for how many seconds at most.
  pollfd waits_for() const;
  double patience() const { return wake_.left(); }

  Descriptor take() { return std::move(socket_); }
  const Identity& identity() const { return identity_; }
  /// "10.0.0.7:29500: Connection refused"
  const std::string& trouble() const { return trouble_; }

 private:
  enum class State { resting, connecting, shaking, done };

  bool dial_next();
  bool finish_connecting();
  bool shake();
  bool fail(const std::string& cause);

  std::vector<std::string> hosts_;
  uint16_t port_;
  std::string key_;
  Identity identity_;
  WhenRefused when_refused_;

  State state_ = State::resting;
  std::vector<Address> addresses_;
  size_t next_ = 0;
  double rest_seconds_;
  double attempt_seconds_;
  Deadline wake_ = Deadline::in(0);
  Descriptor socket_;
  std::optional<GuestHandshake> handshake_;
  std::string trouble_ = "not tried yet";
};

}  // namespace lockstep::transport
