#include "lockstep/error.h"
#include "transport/nccl.h"

namespace lockstep::transport {

bool nccl_is_built() {
  return false;
}

std::unique_ptr<Engine> connect_nccl(Rendezvous& /*rendezvous*/, int gpu) {
  throw BadInput(
      "transport nccl: this build has no NCCL, so GPU {} cannot take part; choose the transport "
      "shm, tcp or mpi",
      gpu);
}

}  // namespace lockstep::transport
