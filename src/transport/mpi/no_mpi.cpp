#include "lockstep/error.h"
#include "transport/mpi.h"

namespace lockstep::transport {
namespace {

[[noreturn]] void refuse() {
  throw BadInput(
      "transport mpi: this build has no MPI; install an MPI (Debian: libopenmpi-dev) and configure "
      "with -DLOCKSTEP_MPI=ON, or choose the transport shm or tcp");
}

}  // namespace

bool mpi_is_built() {
  return false;
}

std::string mpi_version() {
  return "none";
}

std::unique_ptr<Rendezvous> mpi_rendezvous(const MpiOptions& /*options*/) {
  refuse();
}

std::unique_ptr<Transport> connect_mpi(Rendezvous& /*rendezvous*/, const MpiOptions& /*options*/) {
  refuse();
}

}  // namespace lockstep::transport
