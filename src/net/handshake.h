#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>

#include "net/wire.h"

namespace lockstep::net {

// A connection begins with both ends proving that they know the job key, without sending it:
//
//   server -> client   Challenge   a random number
//   client -> server   Answer      who it is, a random number, HMAC-SHA256 over all of that
//   server -> client   Reply       a verdict, HMAC-SHA256 over the same, in the server's name
//
// "client" and "server" are part of what is signed, so that neither's proof serves as the other's.

Nonce random_nonce();
Proof client_proof(const std::string& key, const Challenge& challenge, const Answer& answer);
Proof server_proof(const std::string& key, const Challenge& challenge, const Answer& answer);
/// In constant time, wherever they differ.
bool same(const Proof& a, const Proof& b);

enum class HandshakeStatus { pending, done, failed };

/// The server's end of one handshake. Never waits.
class ServerHandshake {
 public:
  using Expects = std::function<bool(const Identity&)>;

  /// Both arguments must outlive it.
  ServerHandshake(const std::string& key, const Expects& expects);

  /// Sends the challenge. Call it once, first.
  HandshakeStatus challenge(int socket);
  /// Call it whenever the socket is readable, until it is done or has failed.
  HandshakeStatus advance(int socket);

  const Identity& identity() const { return answer_.identity; }
  /// Why it failed or is still pending, as the end of a sentence about the client.
  const char* error() const { return error_; }
  /// The client is a Lockstep worker, but one that does not belong here.
  bool refused() const { return refused_; }

 private:
  HandshakeStatus judge(int socket, const Answer& answer);
  HandshakeStatus fail(const char* error);

  const std::string* key_;
  const Expects* expects_;
  Challenge challenge_;
  Answer answer_;
  std::array<std::byte, kAnswerBytes> arrived_ = {};
  size_t arrived_bytes_ = 0;
  const char* error_ = "sent nothing";
  bool refused_ = false;
};

/// The client's end. Never waits.
class ClientHandshake {
 public:
  ClientHandshake(std::string key, const Identity& identity);

  HandshakeStatus advance(int socket);

  /// The server will never let this client in: there is no point in trying again.
  bool refused() const { return refused_; }
  /// Why it failed or is still pending, as the end of a sentence about the server.
  const char* error() const { return error_; }

 private:
  HandshakeStatus answer_challenge(int socket);
  HandshakeStatus check_reply();
  HandshakeStatus fail(const char* error);

  std::string key_;
  Challenge challenge_;
  Answer answer_;
  bool answered_ = false;
  bool refused_ = false;
  std::array<std::byte, kReplyBytes> arrived_ = {};
  size_t arrived_bytes_ = 0;
  const char* error_ = "sends nothing: another program may be listening there";
};

}  // namespace lockstep::net
