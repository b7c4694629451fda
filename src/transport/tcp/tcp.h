#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/acceptor.h"
#include "transport/transports.h"

namespace lockstep::transport {

struct TcpOptions {
  /// What only the job's own workers know.
  std::string key;
  /// Data connections for every pair of ranks: more than one where one does not fill the network.
  int streams = 1;
  /// A peer that nothing was heard of for so long is lost.
  double silence_seconds = 10;
  /// How long to try to connect all ranks with each other.
  double connect_seconds = 30;
  /// The congestion controls to use, the first that the system allows; none of them: its own. Ranks
  /// send both ways at once, and under BBR one direction starves while the other's data hold up its
  /// acknowledgements; and within a machine, pacing costs processor time for nothing.
  std::vector<std::string> congestion = {"cubic", "reno"};
  /// The address of the interface to use, when the one towards the master is not right.
  std::string bind;
  net::Log log;
};

TcpOptions tcp_options(const TransportOptions& options);

/// Connects every rank with every other. Gathers twice, in a world of any size. Throws Timeout with
/// the ranks that cannot reach each other, on all ranks; Mismatch when ranks differ in `streams`.
std::unique_ptr<Transport> connect_tcp(Rendezvous& rendezvous, const TcpOptions& options);

}  // namespace lockstep::transport
