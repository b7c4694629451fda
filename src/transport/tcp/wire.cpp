#include "transport/tcp/wire.h"

#include "transport/tcp/bytes.h"

namespace lockstep::transport {
namespace {

// The last byte is the protocol's version.
constexpr uint64_t kHandshakeMagic = 0x0150455453'4b4cULL;  // "LKSTEP", 1
constexpr uint32_t kFrameMagic = 0x52534b4c;
constexpr uint32_t kMessageMagic = 0x4d534b4c;
constexpr uint32_t kControlMagic = 0x43534b4c;

constexpr size_t kLongestHost = 256;
constexpr size_t kLongestMessage = 16384;
constexpr size_t kMostCardAddresses = 64;

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
  identity.purpose = static_cast<Purpose>(reader.get<uint32_t>());
  identity.stream = reader.get<uint32_t>();
  return identity;
}

bool known(Purpose purpose) {
  return purpose >= Purpose::rendezvous && purpose <= Purpose::membership;
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
      .put(static_cast<uint32_t>(identity.purpose))
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
  if (!ours || !reader.complete() || !known(answer.identity.purpose)) return std::nullopt;
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
      .put(join.world)
      .put(join.pid)
      .put(join.milliseconds_left)
      .put_text(join.host)
      .bytes();
}

std::string encode(const Entry& entry) {
  return ByteWriter().put(entry.milliseconds_left).put_text(entry.text).bytes();
}

std::string encode_roster(const std::vector<std::string>& texts) {
  ByteWriter writer;
  writer.put(static_cast<uint32_t>(texts.size()));
  for (const std::string& text : texts) writer.put_text(text);
  return writer.bytes();
}

std::string encode(const Failure& failure) {
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
  join.world = reader.get<uint32_t>();
  join.pid = reader.get<uint32_t>();
  join.milliseconds_left = reader.get<uint32_t>();
  join.host = reader.get_text(kLongestHost);
  if (!reader.complete() || join.world == 0 || join.world > kLargestWorld) return std::nullopt;
  return join;
}

std::optional<Entry> parse_entry(Bytes bytes) {
  ByteReader reader(bytes);
  Entry entry;
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

std::optional<Failure> parse_failure(Bytes bytes) {
  ByteReader reader(bytes);
  Failure failure;
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

std::string encode(const Card& card) {
  ByteWriter writer;
  writer.put(card.job_rank).put_text(card.host).put_text(card.kernel).put_text(card.network);
  writer.put(card.pid).put(card.port);
  writer.put(card.streams).put(card.session).put(static_cast<uint32_t>(card.addresses.size()));
  for (const std::string& address : card.addresses) writer.put_text(address);
  return writer.bytes();
}

std::optional<Card> parse_card(Bytes bytes) {
  ByteReader reader(bytes);
  Card card;
  card.job_rank = reader.get<uint32_t>() % kLargestWorld;
  card.host = reader.get_text(kLongestHost);
  card.kernel = reader.get_text(kLongestHost);
  card.network = reader.get_text(kLongestHost);
  card.pid = reader.get<uint32_t>();
  card.port = reader.get<uint16_t>();
  card.streams = reader.get<uint32_t>();
  card.session = reader.get<uint64_t>();
  const auto count = reader.get<uint32_t>();
  if (count > kMostCardAddresses) return std::nullopt;
  for (uint32_t i = 0; i < count && !reader.broken(); ++i)
    card.addresses.push_back(reader.get_text(kLongestHost));
  if (!reader.complete()) return std::nullopt;
  return card;
}

// Once for every message, and so without allocating.
MessageHeaderBytes encode(const MessageHeader& header) {
  MessageHeaderBytes bytes = {};
  const auto store = [&](size_t at, uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
  };
  store(0, kMessageMagic, 4);
  store(4, header.part, 4);
  for (size_t i = 0; i < header.label.words.size(); ++i) store(8 + 8 * i, header.label.words[i], 8);
  store(48, header.bytes, 8);
  return bytes;
}

std::optional<MessageHeader> parse_message_header(Bytes bytes) {
  ByteReader reader(bytes);
  const bool ours = reader.get<uint32_t>() == kMessageMagic;
  MessageHeader header;
  header.part = reader.get<uint32_t>();
  for (uint64_t& word : header.label.words) word = reader.get<uint64_t>();
  header.bytes = reader.get<uint64_t>();
  const bool padded = reader.get<uint64_t>() == 0;
  if (!ours || !padded || !reader.complete()) return std::nullopt;
  return header;
}

std::string encode(const ControlHeader& header) {
  return ByteWriter()
      .put(kControlMagic)
      .put(static_cast<uint32_t>(header.kind))
      .put(header.culprit)
      .put(header.bytes)
      .bytes();
}

std::optional<ControlHeader> parse_control_header(Bytes bytes) {
  ByteReader reader(bytes);
  const bool ours = reader.get<uint32_t>() == kControlMagic;
  ControlHeader header;
  header.kind = static_cast<ControlKind>(reader.get<uint32_t>());
  header.culprit = reader.get<uint32_t>();
  header.bytes = reader.get<uint32_t>();
  const bool has_reason = header.kind == ControlKind::gave_up;
  const bool known =
      has_reason || header.kind == ControlKind::heartbeat || header.kind == ControlKind::goodbye;
  if (!ours || !known || !reader.complete() || header.bytes > (has_reason ? kLongestReason : 0))
    return std::nullopt;
  return header;
}

}  // namespace lockstep::transport
