#pragma once

#include <memory>
#include <string>

#include "transport/transport.h"

namespace lockstep::transport {

/// Whether this build has MPI. Without it the functions below throw BadInput saying so.
bool mpi_is_built();

/// The first line of what the MPI library says it is, or "none".
std::string mpi_version();

struct MpiOptions {
  /// How long ranks wait for each other while they connect.
  double connect_seconds = 60;
};

/// Between all processes that one mpirun (or srun) started, by their ranks in MPI_COMM_WORLD.
///
/// Initialises MPI if nobody has; then MPI is finalised when the process ends well. A process in
/// which a transport failed or gave up ends without, so that it does not wait for ranks that are
/// gone and the launcher notices. Who initialises MPI himself must ask for MPI_THREAD_SERIALIZED.
std::unique_ptr<Rendezvous> mpi_rendezvous(const MpiOptions& options = {});

/// Between the ranks of any rendezvous whose processes share one MPI_COMM_WORLD, over a
/// communicator of its own. Its `engine` is MPI_Iallreduce. After an exception only `abort` is
/// left: it ends all processes of the job, and says on stderr which rank wanted that and why.
///
///     auto all = mpi_rendezvous();
///     auto transport = connect_mpi(*all);
std::unique_ptr<Transport> connect_mpi(Rendezvous& rendezvous, const MpiOptions& options = {});

}  // namespace lockstep::transport
