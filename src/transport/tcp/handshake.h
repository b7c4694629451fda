#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>

#include "transport/tcp/wire.h"

namespace lockstep::transport {

// A connection begins with both ends proving that they know the job key, without telling it:
//
//   host  -> guest   Challenge   a random number
//   guest -> host    Answer      who it is, a random number, HMAC-SHA256 over all of that
//   host  -> guest   Reply       a verdict, HMAC-SHA256 over the same, in the host's name
//
// "guest" and "host" are part of what is signed, so that neither's proof serves as the other's.

Nonce random_nonce();
Proof guest_proof(const std::string& key, const Challenge& challenge, const Answer& answer);
Proof host_proof(const std::string& key, const Challenge& challenge, const Answer& answer);
/// In a time that says nothing about where they differ.
bool same(const Proof& a, const Proof& b);

enum class Progress { going, done, failed };

/// The host's end of one handshake.
class HostHandshake {
 public:
  using Expects = std::function<bool(const Identity&)>;

  /// Both must outlive it.
  HostHandshake(const std::string& key, const Expects& expects);

  /// The first word, once.
  Progress challenge(int socket);
  /// Moves what can be moved without waiting, until it is done or has failed.
  Progress advance(int socket);

  const Identity& identity() const { return answer_.identity; }
  const char* trouble() const { return trouble_; }
  /// Whether it is a worker of Lockstep's that was not let in.
  bool refused() const { return refused_; }

 private:
  Progress judge(int socket, const Answer& answer);
  Progress fail(const char* trouble);

  const std::string* key_;
  const Expects* expects_;
  Challenge challenge_;
  Answer answer_;
  std::array<std::byte, kAnswerBytes> arrived_ = {};
  size_t arrived_bytes_ = 0;
  const char* trouble_ = "said nothing";
  bool refused_ = false;
};

/// The guest's end.
class GuestHandshake {
 public:
  GuestHandshake(std::string key, const Identity& identity);

  Progress advance(int socket);

  /// The host said that it will never let this guest in.
  bool refused() const { return refused_; }
  const char* trouble() const { return trouble_; }

 private:
  Progress answer_challenge(int socket);
  Progress check_reply();
  Progress fail(const char* trouble);

  std::string key_;
  Challenge challenge_;
  Answer answer_;
  bool answered_ = false;
  bool refused_ = false;
  std::array<std::byte, kReplyBytes> arrived_ = {};
  size_t arrived_bytes_ = 0;
  const char* trouble_ = "says nothing: another program may be listening there";
};

}  // namespace lockstep::transport
