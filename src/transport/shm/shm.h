#pragma once

#include <memory>
#include <string>

#include "transport/transport.h"

namespace lockstep::transport {

struct ShmOptions {
  /// A rank of which nothing was seen for this long counts as lost. One whose process ended is
  /// noticed within a fraction of a second.
  double silence_seconds = 10;
  /// Ranks for which this is equal share memory; "": as `host_identity` says.
  std::string host = {};
};

/// Between the ranks of one host: messages are read where they lie in the sender's memory. Throws
/// BadInput where ranks are on several hosts.
std::unique_ptr<Transport> connect_shm(Rendezvous& rendezvous, const ShmOptions& options = {});

}  // namespace lockstep::transport
