#include "net/wire.h"

#include "lockstep/error.h"
#include "net/bytes.h"

namespace lockstep::net {
namespace {

// The last byte is the protocol's version.
constexpr uint64_t kHandshakeMagic = 0x0150455453'4b4cULL;  // "LKSTEP", 1
constexpr uint32_t kFrameMagic = 0x52534b4c;

constexpr size_t kLongestMessage = 16384;

size_t largest_payload(FrameKind kind) {
  switch (kind) {
    case FrameKind::join:
      return kLongestHost + 64;
    case FrameKind::entry:
      return kLongestText + 64;
    case FrameKind::roster:
      return kLongestRoster;
    case FrameKind::failure:
      return kLongestMessage + size_t{4} * kLargestWorld + 64;
    case FrameKind::membership:
      return kLongestText;
  }
  return 0;
}

Identity read_identity(ByteReader& reader) {
  Identity identity;
  identity.session = reader.get<uint64_t>();
  identity.from = reader.get<uint32_t>();
  identity.to = reader.get<uint32_t>();
  identity.kind = static_cast<ConnectionKind>(reader.get<uint32_t>());
  identity.stream = reader.get<uint32_t>();
  return identity;
}

bool known(ConnectionKind kind) {
  return kind >= ConnectionKind::rendezvous && kind <= ConnectionKind::membership;
}

bool known(Verdict verdict) {
  return verdict == Verdict::welcome || verdict == Verdict::wrong_key ||
         verdict == Verdict::not_expected;
}

}  // namespace

std::string encode(const Identity& identity) {
  return ByteWriter()
      .put(identity.session)
      .put(identity.from)
      .put(identity.to)
      .put(static_cast<uint32_t>(identity.kind))
      .put(identity.stream)
      .bytes();
}

std::string encode(const Challenge& challenge) {
  return ByteWriter().put(kHandshakeMagic).put_bytes(challenge.nonce).bytes();
}

std::string encode(const Answer& answer) {
  return ByteWriter()
      .put(kHandshakeMagic)
      .put_bytes(encode(answer.identity))
      .put_bytes(answer.nonce)
      .put_bytes(answer.proof)
      .bytes();
}

std::string encode(const Reply& reply) {
  return ByteWriter()
      .put(kHandshakeMagic)
      .put(static_cast<uint32_t>(reply.verdict))
      .put_bytes(reply.proof)
      .bytes();
}

std::optional<Challenge> parse_challenge(Bytes bytes) {
  ByteReader reader(bytes);
  const bool ours = reader.get<uint64_t>() == kHandshakeMagic;
  Challenge challenge;
  reader.get_bytes(std::span(challenge.nonce));
  if (!ours || !reader.complete()) return std::nullopt;
  return challenge;
}

std::optional<Answer> parse_answer(Bytes bytes) {
  ByteReader reader(bytes);
  const bool ours = reader.get<uint64_t>() == kHandshakeMagic;
  Answer answer;
  answer.identity = read_identity(reader);
  reader.get_bytes(std::span(answer.nonce));
  reader.get_bytes(std::span(answer.proof));
  if (!ours || !reader.complete() || !known(answer.identity.kind)) return std::nullopt;
  return answer;
}

std::optional<Reply> parse_reply(Bytes bytes) {
  ByteReader reader(bytes);
  const bool ours = reader.get<uint64_t>() == kHandshakeMagic;
  Reply reply;
  reply.verdict = static_cast<Verdict>(reader.get<uint32_t>());
  reader.get_bytes(std::span(reply.proof));
  if (!ours || !reader.complete() || !known(reply.verdict)) return std::nullopt;
  return reply;
}

std::string encode(const FrameHeader& header) {
  return ByteWriter()
      .put(kFrameMagic)
      .put(static_cast<uint32_t>(header.kind))
      .put(header.bytes)
      .bytes();
}

std::string encode(const Join& join) {
  return ByteWriter()
      .put(join.world_size)
      .put(join.pid)
      .put(join.milliseconds_left)
      .put_text(join.host)
      .bytes();
}

std::string encode(const GatherEntry& entry) {
  return ByteWriter().put(entry.milliseconds_left).put_text(entry.text).bytes();
}

std::string encode_roster(const std::vector<std::string>& texts) {
  ByteWriter writer;
  writer.put(static_cast<uint32_t>(texts.size()));
  for (const std::string& text : texts) writer.put_text(text);
  return writer.bytes();
}

std::string encode(const RendezvousFailure& failure) {
  ByteWriter writer;
  writer.put(static_cast<uint32_t>(failure.kind));
  writer.put(static_cast<uint32_t>(failure.ranks.size()));
  for (const int rank : failure.ranks) writer.put(static_cast<uint32_t>(rank));
  return writer.put_text(failure.message.substr(0, kLongestMessage)).bytes();
}

std::optional<FrameHeader> parse_frame_header(Bytes bytes) {
  ByteReader reader(bytes);
  const bool ours = reader.get<uint32_t>() == kFrameMagic;
  FrameHeader header;
  header.kind = static_cast<FrameKind>(reader.get<uint32_t>());
  header.bytes = reader.get<uint32_t>();
  if (!ours || !reader.complete() || header.bytes > largest_payload(header.kind))
    return std::nullopt;
  return header;
}

std::optional<Join> parse_join(Bytes bytes) {
  ByteReader reader(bytes);
  Join join;
  join.world_size = reader.get<uint32_t>();
  join.pid = reader.get<uint32_t>();
  join.milliseconds_left = reader.get<uint32_t>();
  join.host = reader.get_text(kLongestHost);
  if (!reader.complete() || join.world_size == 0 || join.world_size > kLargestWorld)
    return std::nullopt;
  return join;
}

std::optional<GatherEntry> parse_entry(Bytes bytes) {
  ByteReader reader(bytes);
  GatherEntry entry;
  entry.milliseconds_left = reader.get<uint32_t>();
  entry.text = reader.get_text(kLongestText);
  if (!reader.complete()) return std::nullopt;
  return entry;
}

std::optional<std::vector<std::string>> parse_roster(Bytes bytes) {
  ByteReader reader(bytes);
  const auto count = reader.get<uint32_t>();
  if (count > kLargestWorld) return std::nullopt;
  std::vector<std::string> texts;
  for (uint32_t i = 0; i < count && !reader.broken(); ++i)
    texts.push_back(reader.get_text(kLongestText));
  if (!reader.complete()) return std::nullopt;
  return texts;
}

std::optional<RendezvousFailure> parse_failure(Bytes bytes) {
  ByteReader reader(bytes);
  RendezvousFailure failure;
  failure.kind = static_cast<FailureKind>(reader.get<uint32_t>());
  const auto count = reader.get<uint32_t>();
  if (count > kLargestWorld) return std::nullopt;
  for (uint32_t i = 0; i < count && !reader.broken(); ++i)
    failure.ranks.push_back(static_cast<int>(reader.get<uint32_t>() % kLargestWorld));
  failure.message = reader.get_text(kLongestMessage);
  const bool known = failure.kind == FailureKind::mismatch ||
                     failure.kind == FailureKind::timeout || failure.kind == FailureKind::peer_lost;
  if (!reader.complete() || !known) return std::nullopt;
  return failure;
}

void RendezvousFailure::raise() const {
  switch (kind) {
    case FailureKind::timeout:
      throw Timeout(ranks, message);
    case FailureKind::peer_lost:
      throw PeerLost(ranks.empty() ? 0 : ranks.front(), message);
    case FailureKind::mismatch:
      break;
  }
  throw Mismatch("{}", message);
}

}  // namespace lockstep::net
