#include "transport/tcp/wire.h"

#include "net/bytes.h"

namespace lockstep::transport {
namespace {

constexpr uint32_t kMessageMagic = 0x4d534b4c;
constexpr uint32_t kControlMagic = 0x43534b4c;
constexpr size_t kMostEndpointAddresses = 64;

}  // namespace

std::string encode(const Endpoint& endpoint) {
  net::ByteWriter writer;
  writer.put(endpoint.job_rank)
      .put_text(endpoint.host)
      .put_text(endpoint.kernel)
      .put_text(endpoint.network);
  writer.put(endpoint.pid).put(endpoint.port);
  writer.put(endpoint.streams)
      .put(endpoint.session)
      .put(static_cast<uint32_t>(endpoint.addresses.size()));
  for (const std::string& address : endpoint.addresses) writer.put_text(address);
  return writer.bytes();
}

std::optional<Endpoint> parse_endpoint(net::Bytes bytes) {
  net::ByteReader reader(bytes);
  Endpoint endpoint;
  endpoint.job_rank = reader.get<uint32_t>() % net::kLargestWorld;
  endpoint.host = reader.get_text(net::kLongestHost);
  endpoint.kernel = reader.get_text(net::kLongestHost);
  endpoint.network = reader.get_text(net::kLongestHost);
  endpoint.pid = reader.get<uint32_t>();
  endpoint.port = reader.get<uint16_t>();
  endpoint.streams = reader.get<uint32_t>();
  endpoint.session = reader.get<uint64_t>();
  const auto count = reader.get<uint32_t>();
  if (count > kMostEndpointAddresses) return std::nullopt;
  for (uint32_t i = 0; i < count && !reader.broken(); ++i)
    endpoint.addresses.push_back(reader.get_text(net::kLongestHost));
  if (!reader.complete()) return std::nullopt;
  return endpoint;
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

std::optional<MessageHeader> parse_message_header(net::Bytes bytes) {
  net::ByteReader reader(bytes);
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
  return net::ByteWriter()
      .put(kControlMagic)
      .put(static_cast<uint32_t>(header.kind))
      .put(header.culprit)
      .put(header.bytes)
      .bytes();
}

std::optional<ControlHeader> parse_control_header(net::Bytes bytes) {
  net::ByteReader reader(bytes);
  const bool ours = reader.get<uint32_t>() == kControlMagic;
  ControlHeader header;
  header.kind = static_cast<ControlKind>(reader.get<uint32_t>());
  header.culprit = reader.get<uint32_t>();
  header.bytes = reader.get<uint32_t>();
  if (!ours || !reader.complete()) return std::nullopt;
  switch (header.kind) {
    case ControlKind::heartbeat:
    case ControlKind::goodbye:
      return header.bytes == 0 ? std::optional(header) : std::nullopt;
    case ControlKind::gave_up:
      return header.bytes <= kLongestReason ? std::optional(header) : std::nullopt;
    case ControlKind::waits:
      return header.bytes == kWhereaboutsBytes ? std::optional(header) : std::nullopt;
  }
  return std::nullopt;
}

std::string encode(const Whereabouts& whereabouts) {
  net::ByteWriter writer;
  for (const uint64_t word : whereabouts.label.words) writer.put(word);
  return writer.put(whereabouts.collectives).bytes();
}

std::optional<Whereabouts> parse_whereabouts(net::Bytes bytes) {
  net::ByteReader reader(bytes);
  Whereabouts whereabouts;
  for (uint64_t& word : whereabouts.label.words) word = reader.get<uint64_t>();
  whereabouts.collectives = reader.get<uint64_t>();
  return reader.complete() ? std::optional(whereabouts) : std::nullopt;
}

}  // namespace lockstep::transport
