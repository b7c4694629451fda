#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/acceptor.h"
#include "transport/transports.h"

namespace lockstep::transport {

struct TcpOptions {
  /// Secret of the job's workers.
  std::string key;
  /// Data connections for every pair of ranks; several if one does not use the network's full
  /// bandwidth.
  int streams = 1;
  /// Heartbeat timeout: a peer that sends no heartbeat for this long is lost.
  double silence_seconds = 10;
  /// How long to try to connect all ranks with each other.
  double connect_seconds = 30;
  /// A descriptor that becomes readable to cancel that; -1: none.
  int stop = -1;
  /// Congestion controls in order of preference; the first one that the system allows is used, else
  /// the system's default. Not BBR: ranks send in both directions at once, and one direction
  /// starves while the other's data delay its acknowledgements; also, pacing costs processor time.
  std::vector<std::string> congestion = {"cubic", "reno"};
  /// The address of the interface to use instead of the one towards the master.
  std::string bind;
  net::Log log;
};

TcpOptions tcp_options(const TransportOptions& options);

/// Connects every rank with every other. Calls `gather` twice, for any world size. Throws Timeout
/// with the ranks that cannot reach each other, on all ranks; Mismatch when ranks differ in
/// `streams`; net::Interrupted.
std::unique_ptr<Transport> connect_tcp(Rendezvous& rendezvous, const TcpOptions& options);

}  // namespace lockstep::transport
