// Everything that Lockstep parses from the network, on arbitrary bytes. The first byte chooses the
// parser. What is accepted must survive being written and read again.
//
//   scripts/build clang -- network_fuzz
//   build/clang/network_fuzz -max_total_time=20 -max_len=4096
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "elastic/message.h"
#include "transport/tcp/wire.h"

namespace lockstep::transport {
namespace {

using namespace net;  // NOLINT(google-build-using-namespace): both modules' parsers are called

void require(bool holds) {
  if (!holds) std::abort();
}

// What is read, written and read again must be written the same.
template <typename Parse>
void round_trip(Parse parse, Bytes bytes) {
  const auto first = parse(bytes);
  if (!first) return;
  const auto written = encode(*first);
  const auto second = parse(std::as_bytes(std::span(written)));
  require(second.has_value());
  require(encode(*second) == written);
}

void roster_round_trip(Bytes bytes) {
  const auto texts = parse_roster(bytes);
  if (!texts) return;
  const std::string written = encode_roster(*texts);
  require(parse_roster(std::as_bytes(std::span(written))) == texts);
}

// What an elastic job's workers and coordinator say to each other.
template <typename Message>
void message_round_trip(const std::string& text) {
  const auto message = elastic::parse<Message>(text);
  if (!message) return;
  const std::string written = encode(*message);
  const auto second = elastic::parse<Message>(written);
  require(second.has_value());
  require(encode(*second) == written);
}

void messages(Bytes bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  message_round_trip<elastic::Hello>(text);
  message_round_trip<elastic::Ready>(text);
  message_round_trip<elastic::Control>(text);
  message_round_trip<elastic::Go>(text);
  message_round_trip<elastic::Leave>(text);
}

// A stream of frames, as a link cuts it: no header may promise more than its kind may have.
void frames(Bytes bytes) {
  while (bytes.size() >= kFrameHeaderBytes) {
    const auto header = parse_frame_header(bytes.first(kFrameHeaderBytes));
    if (!header) return;
    require(header->bytes <= kLongestRoster);
    bytes = bytes.subspan(kFrameHeaderBytes);
    if (header->bytes > bytes.size()) return;
    const Bytes payload = bytes.first(header->bytes);
    if (header->kind == FrameKind::join) round_trip(parse_join, payload);
    if (header->kind == FrameKind::entry) round_trip(parse_entry, payload);
    if (header->kind == FrameKind::roster) roster_round_trip(payload);
    if (header->kind == FrameKind::failure) round_trip(parse_failure, payload);
    if (header->kind == FrameKind::membership) messages(payload);
    bytes = bytes.subspan(header->bytes);
  }
}

void controls(Bytes bytes) {
  while (bytes.size() >= kControlHeaderBytes) {
    const auto header = parse_control_header(bytes.first(kControlHeaderBytes));
    if (!header) return;
    require(header->bytes <= kLongestReason);
    bytes = bytes.subspan(kControlHeaderBytes);
    if (header->bytes > bytes.size()) return;
    if (header->kind == ControlKind::waits)
      round_trip(parse_whereabouts, bytes.first(header->bytes));
    bytes = bytes.subspan(header->bytes);
  }
}

void parse_one(uint8_t which, Bytes bytes) {
  switch (which % 13) {
    case 0:
      return round_trip(parse_challenge, bytes);
    case 1:
      return round_trip(parse_answer, bytes);
    case 2:
      return round_trip(parse_reply, bytes);
    case 3:
      return frames(bytes);
    case 4:
      return round_trip(parse_join, bytes);
    case 5:
      return round_trip(parse_entry, bytes);
    case 6:
      return roster_round_trip(bytes);
    case 7:
      return round_trip(parse_failure, bytes);
    case 8:
      return round_trip(parse_endpoint, bytes);
    case 9:
      return round_trip(parse_message_header, bytes);
    case 10:
      return controls(bytes);
    case 11:
      return messages(bytes);
    default:
      return round_trip(parse_control_header, bytes);
  }
}

}  // namespace
}  // namespace lockstep::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> rest(data + 1, size - 1);
  lockstep::transport::parse_one(data[0], std::as_bytes(rest));
  return 0;
}
