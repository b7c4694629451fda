#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

// What handshakes and rendezvous read from the network, as pure functions from bytes to structs.
// Malformed bytes give nullopt, and every size that they state is checked against a bound. Fuzzed
// by tests/fuzz/network_fuzz.cpp.
namespace lockstep::net {

using Bytes = std::span<const std::byte>;

// ---- handshake: frames of fixed size, exchanged before either end trusts the other

using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

/// What a connection is used for.
enum class ConnectionKind : uint32_t { rendezvous = 1, control = 2, data = 3, membership = 4 };

/// Which rank connects to which, and what for. It is part of both proofs, so that nobody can change
/// it on the way.
struct Identity {
  uint64_t session = 0;
  uint32_t from = 0;
  uint32_t to = 0;
  ConnectionKind kind = ConnectionKind::rendezvous;
  uint32_t stream = 0;

  bool operator==(const Identity&) const = default;
};

/// Server to client, as soon as the connection is accepted.
struct Challenge {
  Nonce nonce = {};
};

/// Client to server: proves that the client knows the key, and says who it is.
struct Answer {
  Identity identity;
  Nonce nonce = {};
  Proof proof = {};
};

enum class Verdict : uint32_t { welcome = 1, wrong_key = 2, not_expected = 3 };

/// Server to client. With `welcome` it proves that the server knows the key; otherwise the proof is
/// zero.
struct Reply {
  Verdict verdict = Verdict::welcome;
  Proof proof = {};
};

constexpr size_t kChallengeBytes = 8 + 32;
constexpr size_t kAnswerBytes = 8 + 24 + 32 + 32;
constexpr size_t kReplyBytes = 8 + 4 + 32;

std::string encode(const Identity& identity);
std::string encode(const Challenge& challenge);
std::string encode(const Answer& answer);
std::string encode(const Reply& reply);
std::optional<Challenge> parse_challenge(Bytes bytes);
std::optional<Answer> parse_answer(Bytes bytes);
std::optional<Reply> parse_reply(Bytes bytes);

// ---- after the handshake: frames of a header and a payload

/// The payload of a `membership` frame is a message of elastic/message.h.
enum class FrameKind : uint32_t { join = 1, entry = 2, roster = 3, failure = 4, membership = 5 };

struct FrameHeader {
  FrameKind kind = FrameKind::join;
  uint32_t bytes = 0;
};

constexpr size_t kFrameHeaderBytes = 12;
constexpr size_t kLongestHost = 256;
constexpr size_t kLongestText = size_t{1} << 20;
constexpr size_t kLongestRoster = size_t{1} << 30;
constexpr uint32_t kLargestWorld = 1 << 16;

/// A rank to rank 0, once connected: what rank 0 compares between ranks, and how messages name it.
struct Join {
  uint32_t world_size = 0;
  uint32_t pid = 0;
  uint32_t milliseconds_left = 0;
  std::string host;
};

/// A rank to rank 0: its text for `gather`.
struct GatherEntry {
  uint32_t milliseconds_left = 0;
  std::string text;
};

enum class FailureKind : uint32_t { mismatch = 1, timeout = 2, peer_lost = 3 };

/// Rank 0 to all ranks: why the rendezvous failed.
struct RendezvousFailure {
  FailureKind kind = FailureKind::mismatch;
  std::vector<int> ranks;
  std::string message;

  /// Throws the error that `kind` stands for.
  [[noreturn]] void raise() const;
};

std::string encode(const FrameHeader& header);
std::string encode(const Join& join);
std::string encode(const GatherEntry& entry);
std::string encode_roster(const std::vector<std::string>& texts);
std::string encode(const RendezvousFailure& failure);
/// Also nullopt when the payload would be larger than its kind allows.
std::optional<FrameHeader> parse_frame_header(Bytes bytes);
std::optional<Join> parse_join(Bytes bytes);
std::optional<GatherEntry> parse_entry(Bytes bytes);
std::optional<std::vector<std::string>> parse_roster(Bytes bytes);
std::optional<RendezvousFailure> parse_failure(Bytes bytes);

}  // namespace lockstep::net
