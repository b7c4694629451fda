#pragma once

#include <memory>
#include <string>

#include "transport/mpi.h"

namespace lockstep::transport::mpi {

/// The functions of transport/mpi.h as they are in liblockstep_mpi, which is linked with an MPI: no
/// other library loads MPI, whose start takes up to half a second.
std::string version();
std::unique_ptr<Rendezvous> rendezvous(const MpiOptions& options = {});
std::unique_ptr<Transport> connect(Rendezvous& rendezvous, const MpiOptions& options = {});

/// These functions, as the library's function lockstep_mpi_entry returns them.
struct Entry {
  decltype(&version) get_version;
  decltype(&rendezvous) make_rendezvous;
  decltype(&connect) make_transport;
};

}  // namespace lockstep::transport::mpi

/// There is one here only in programs that are linked with an MPI, such as tests.
extern "C" [[gnu::weak]] const lockstep::transport::mpi::Entry* lockstep_mpi_entry();
