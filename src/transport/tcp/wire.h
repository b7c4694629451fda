#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/transport.h"

// Everything that `tcp` and its rendezvous read from the network, as pure functions from bytes to
// structs: what is malformed gives nothing, and no size in it is believed beyond a bound. Fuzzed by
// tests/fuzz/network_fuzz.cpp.
namespace lockstep::transport {

using Bytes = std::span<const std::byte>;

// ---- handshake: of fixed size, read before anybody is trusted

using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

enum class Purpose : uint32_t { rendezvous = 1, control = 2, data = 3, membership = 4 };

/// Who calls whom, and for what. Part of both proofs, so that nothing of it can be changed on the
/// way.
struct Identity {
  uint64_t session = 0;
  uint32_t from = 0;
  uint32_t to = 0;
  Purpose purpose = Purpose::rendezvous;
  uint32_t stream = 0;

  bool operator==(const Identity&) const = default;
};

/// Host to guest, at once.
struct Challenge {
  Nonce nonce = {};
};

/// Guest to host: the key is known here, and this is who I am.
struct Answer {
  Identity identity;
  Nonce nonce = {};
  Proof proof = {};
};

enum class Verdict : uint32_t { welcome = 1, wrong_key = 2, not_expected = 3 };

/// Host to guest: the key is known here too (the proof is zero unless welcome).
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

// ---- rendezvous: frames of a header and a payload

/// Frames of kind `membership` are elastic/message.h's.
enum class FrameKind : uint32_t { join = 1, entry = 2, roster = 3, failure = 4, membership = 5 };

struct FrameHeader {
  FrameKind kind = FrameKind::join;
  uint32_t bytes = 0;
};

constexpr size_t kFrameHeaderBytes = 12;
constexpr size_t kLongestText = size_t{1} << 20;
constexpr size_t kLongestRoster = size_t{1} << 30;
constexpr uint32_t kLargestWorld = 1 << 16;

/// "I am here": what rank 0 compares among all, and what it calls a rank in messages.
struct Join {
  uint32_t world = 0;
  uint32_t pid = 0;
  uint32_t milliseconds_left = 0;
  std::string host;
};

/// A rank's text for `gather`.
struct Entry {
  uint32_t milliseconds_left = 0;
  std::string text;
};

enum class FailureKind : uint32_t { mismatch = 1, timeout = 2, peer_lost = 3 };

/// Rank 0 tells all why there will be no meeting.
struct Failure {
  FailureKind kind = FailureKind::mismatch;
  std::vector<int> ranks;
  std::string message;
};

std::string encode(const FrameHeader& header);
std::string encode(const Join& join);
std::string encode(const Entry& entry);
std::string encode_roster(const std::vector<std::string>& texts);
std::string encode(const Failure& failure);
/// Nothing also when the payload would be larger than its kind may be.
std::optional<FrameHeader> parse_frame_header(Bytes bytes);
std::optional<Join> parse_join(Bytes bytes);
std::optional<Entry> parse_entry(Bytes bytes);
std::optional<std::vector<std::string>> parse_roster(Bytes bytes);
std::optional<Failure> parse_failure(Bytes bytes);

// ---- mesh

/// What ranks tell each other at the rendezvous in order to connect.
struct Card {
  uint32_t job_rank = 0;
  std::string host;
  std::string kernel;  ///< kernel_identity, and network_identity below
  std::string network;
  uint32_t pid = 0;
  uint16_t port = 0;
  uint32_t streams = 0;
  uint64_t session = 0;
  std::vector<std::string> addresses;
};

std::string encode(const Card& card);
std::optional<Card> parse_card(Bytes bytes);

/// In front of every message, or of every part of one that is striped over several streams.
struct MessageHeader {
  Label label;
  uint64_t bytes = 0;
  uint32_t part = 0;
};

constexpr size_t kMessageHeaderBytes = 64;
using MessageHeaderBytes = std::array<std::byte, kMessageHeaderBytes>;

MessageHeaderBytes encode(const MessageHeader& header);
std::optional<MessageHeader> parse_message_header(Bytes bytes);

enum class ControlKind : uint32_t { heartbeat = 1, goodbye = 2, gave_up = 3 };

/// What goes over control connections: a header, and for `gave_up` a reason.
struct ControlHeader {
  ControlKind kind = ControlKind::heartbeat;
  /// The rank whose loss made the sender give up; the sender's own when there is none.
  uint32_t culprit = 0;
  uint32_t bytes = 0;
};

constexpr size_t kControlHeaderBytes = 16;
constexpr size_t kLongestReason = 4096;

std::string encode(const ControlHeader& header);
std::optional<ControlHeader> parse_control_header(Bytes bytes);

}  // namespace lockstep::transport
