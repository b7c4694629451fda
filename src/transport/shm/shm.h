#pragma once

#include <memory>
#include <string>

#include "transport/transport.h"

namespace lockstep::transport {

struct ShmOptions {
  /// Heartbeat timeout. (A rank whose process ended is detected within a fraction of a second.)
  double silence_seconds = 10;
  /// Ranks with equal `host` share memory; "": use host_identity().
  std::string host = {};
};

/// Connects the ranks of one host; receivers read messages directly from the sender's memory.
/// Throws BadInput if ranks are on several hosts.
std::unique_ptr<Transport> connect_shm(Rendezvous& rendezvous, const ShmOptions& options = {});

}  // namespace lockstep::transport
