#pragma once

#include <vector>

#include "net/socket.h"
#include "transport/tcp/tcp.h"
#include "transport/transport.h"

namespace lockstep::transport {

/// The connections of one rank with all others, by rank; none with itself.
struct Mesh {
  std::vector<Peer> peers;
  std::vector<std::vector<net::Descriptor>> data;
  std::vector<net::Descriptor> control;
  /// How many ranks, this one included, run on this machine.
  int neighbours = 1;
};

Mesh form_mesh(Rendezvous& rendezvous, const TcpOptions& options);

}  // namespace lockstep::transport
