#pragma once

#include <memory>
#include <string>

#include "transport/transport.h"

namespace lockstep::transport {

/// Whether this build has MPI: liblockstep_mpi, which is loaded by the first of the functions below
/// that is called. Without it they throw BadInput saying so, and Error where it cannot be loaded.
bool mpi_is_built();

/// The first line of the MPI library's version text; "none" if this build has no MPI.
std::string mpi_version();

struct MpiOptions {
  /// How long ranks wait for each other while they connect.
  double connect_seconds = 60;
};

/// A rendezvous of all processes that one mpirun (or srun) started, by their ranks in
/// MPI_COMM_WORLD.
///
/// Initialises MPI unless the program has; it is then finalised when the process ends without an
/// error. After a transport has failed or aborted, MPI_Finalize is skipped, so that the process
/// does not wait for lost ranks and the launcher notices the failure. A program that initialises
/// MPI itself must request MPI_THREAD_SERIALIZED.
std::unique_ptr<Rendezvous> mpi_rendezvous(const MpiOptions& options = {});

/// Connects the ranks of any rendezvous whose processes share one MPI_COMM_WORLD, over a separate
/// communicator. Its `engine` is MPI_Iallreduce. After an exception only `abort` may be called: it
/// ends all processes of the job, and prints on stderr which rank aborted and why.
///
///     auto all = mpi_rendezvous();
///     auto transport = connect_mpi(*all);
std::unique_ptr<Transport> connect_mpi(Rendezvous& rendezvous, const MpiOptions& options = {});

}  // namespace lockstep::transport
