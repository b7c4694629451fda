#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "net/handshake.h"
#include "net/socket.h"

namespace lockstep::net {

/// Makes an outgoing connection: tries all addresses of all `hosts` at all `ports` in turn, again
/// and again, until one accepts the connection and the handshake. Never waits, so that many can be
/// made at once:
///
///     Dial dial({"node0"}, {29500}, key, identity, Dial::WhenRefused::give_up);
///     while (!dial.advance()) {
///       pollfd wait = dial.waits_for();
///       wait_for({&wait, 1}, dial.seconds_to_next());
///     }
///     Descriptor socket = dial.take();
class Dial {
 public:
  /// What to do when a server answers and refuses. At the master's address that is an error for the
  /// user to solve; among addresses that are guesses, another may be the right one.
  enum class WhenRefused { give_up, try_next };

  Dial(std::vector<std::string> hosts, std::vector<uint16_t> ports, std::string key,
       const Identity& identity, WhenRefused when_refused);

  /// Does what can be done without waiting. True once the connection is made. Throws BadInput when
  /// there is no such host, or when a server refuses and that means to give up.
  bool advance();

  /// Call `advance` when this is ready, or after this many seconds.
  pollfd waits_for() const;
  double seconds_to_next() const { return wake_.left(); }

  Descriptor take() { return std::move(socket_); }
  const Identity& identity() const { return identity_; }
  /// Why the last attempt failed: "10.0.0.7:29500: Connection refused".
  const std::string& last_error() const { return last_error_; }

 private:
  enum class State { pausing, connecting, handshaking, done };

  bool dial_next();
  bool finish_connecting();
  bool advance_handshake();
  bool fail(const std::string& cause);

  std::vector<std::string> hosts_;
  std::vector<uint16_t> ports_;
  std::string key_;
  Identity identity_;
  WhenRefused when_refused_;

  State state_ = State::pausing;
  std::vector<Address> addresses_;
  size_t next_ = 0;
  double pause_seconds_;
  double attempt_seconds_;
  Deadline wake_ = Deadline::in(0);
  Descriptor socket_;
  std::optional<ClientHandshake> handshake_;
  std::string last_error_ = "not tried yet";
};

}  // namespace lockstep::net
