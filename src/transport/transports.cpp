#include "transport/transports.h"

#include "transport/mpi.h"

namespace lockstep::transport {

Table<TransportRow>& transports() {
  static Table<TransportRow> table("transport");
  return table;
}

namespace {

// Here, because the implementation is in a library that is loaded when it is used.
const bool mpi_added = transports().add(
    {"mpi", "any MPI, started by its mpirun or by srun", TransportRow::Meeting::mpi,
     [](Rendezvous& rendezvous, const TransportOptions& options) {
       return connect_mpi(rendezvous, {.connect_seconds = options.connect_seconds});
     },
     true});

}  // namespace
}  // namespace lockstep::transport
