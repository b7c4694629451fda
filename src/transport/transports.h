#pragma once

#include <memory>
#include <string>

#include "base/table.h"
#include "transport/transport.h"

namespace lockstep::transport {

struct TransportOptions {
  std::string key;              ///< what only the job's own workers know
  int streams = 1;              ///< TCP connections for every pair of ranks
  double silence_seconds = 10;  ///< a peer that sends no heartbeat for this long counts as lost
  double connect_seconds = 60;  ///< for all ranks to connect with each other
};

struct TransportRow {
  std::string name;
  std::string about;
  /// How ranks find each other before they connect.
  enum class Meeting { tcp, mpi } meeting;
  /// Collective.
  std::unique_ptr<Transport> (*connect)(Rendezvous& rendezvous, const TransportOptions& options);
};

/// What `--transport` may be, besides auto.
Table<TransportRow>& transports();

}  // namespace lockstep::transport
