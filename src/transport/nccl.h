#pragma once

#include <memory>

#include "transport/engine.h"
#include "transport/rendezvous.h"

namespace lockstep::transport {

/// Whether this build has NCCL. Without it `connect_nccl` throws BadInput saying so.
bool nccl_is_built();

/// NCCL's all-reduce between the GPUs of the ranks of a rendezvous, one GPU each, through
/// LibTorch's c10d. `data` is the GPU's memory; what writes it has ended, or is in the calling
/// thread's current stream. NCCL does not say who is missing: a Timeout has all other ranks, and
/// any other failure of NCCL's is an Error. Then the engine is of no use any more.
///
/// Not yet run on a GPU. From LibTorch 2.6 on, more than 128 ranks need TORCH_NCCL_RANKS_PER_ROOT
/// to be their number, and NCCL itself waits without a deadline for a rank that dies while it
/// connects.
std::unique_ptr<Engine> connect_nccl(Rendezvous& rendezvous, int gpu);

}  // namespace lockstep::transport
