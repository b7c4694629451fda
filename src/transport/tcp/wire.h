#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "net/wire.h"
#include "transport/transport.h"

// The messages of transport tcp, as pure functions from bytes to structs. See net/wire.h.
namespace lockstep::transport {

/// How a rank can be reached. Ranks exchange these at the rendezvous in order to connect.
struct Endpoint {
  uint32_t job_rank = 0;
  std::string host;
  std::string kernel;   ///< kernel_identity()
  std::string network;  ///< network_identity()
  uint32_t pid = 0;
  uint16_t port = 0;
  uint32_t streams = 0;
  uint64_t session = 0;
  std::vector<std::string> addresses;
};

std::string encode(const Endpoint& endpoint);
std::optional<Endpoint> parse_endpoint(net::Bytes bytes);

/// In front of every message, and of every part of a message that is striped over several streams.
struct MessageHeader {
  Label label;
  uint64_t bytes = 0;
  uint32_t part = 0;
};

constexpr size_t kMessageHeaderBytes = 64;
using MessageHeaderBytes = std::array<std::byte, kMessageHeaderBytes>;

MessageHeaderBytes encode(const MessageHeader& header);
std::optional<MessageHeader> parse_message_header(net::Bytes bytes);

enum class ControlKind : uint32_t { heartbeat = 1, goodbye = 2, gave_up = 3, waits = 4 };

/// A frame on a control connection: this header, followed by the reason if it is `gave_up`, or by
/// the sender's whereabouts if it `waits`.
struct ControlHeader {
  ControlKind kind = ControlKind::heartbeat;
  /// The rank whose loss made the sender give up; the sender's own rank when there is none.
  uint32_t culprit = 0;
  uint32_t bytes = 0;
};

constexpr size_t kControlHeaderBytes = 16;
constexpr size_t kLongestReason = 4096;

std::string encode(const ControlHeader& header);
std::optional<ControlHeader> parse_control_header(net::Bytes bytes);

constexpr size_t kWhereaboutsBytes = 48;

std::string encode(const Whereabouts& whereabouts);
std::optional<Whereabouts> parse_whereabouts(net::Bytes bytes);

}  // namespace lockstep::transport
