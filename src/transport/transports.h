#pragma once

#include <memory>
#include <string>

#include "base/table.h"
#include "transport/device.h"
#include "transport/transport.h"

namespace lockstep::transport {

struct TransportOptions {
  std::string key;              ///< secret of the job's workers
  int streams = 1;              ///< TCP connections for every pair of ranks
  double silence_seconds = 10;  ///< a peer that sends no heartbeat for this long counts as lost
  double connect_seconds = 60;  ///< for all ranks to connect with each other
  int stop = -1;                ///< becomes readable to cancel connecting: net::Interrupted
  int device = 0;               ///< the number of this worker's device, if its memory is carried
};

struct TransportRow {
  std::string name;
  std::string about;
  /// How ranks rendezvous before they connect.
  enum class Meeting { tcp, mpi } meeting;
  /// Collective.
  std::unique_ptr<Transport> (*connect)(Rendezvous& rendezvous, const TransportOptions& options);
  bool has_engine = false;      ///< an all-reduce of its own
  Place carries = Place::host;  ///< besides host memory
};

/// The values of `--transport`, besides auto.
Table<TransportRow>& transports();

}  // namespace lockstep::transport
