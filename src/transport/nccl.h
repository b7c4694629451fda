#pragma once

#include <memory>

#include "transport/engine.h"
#include "transport/rendezvous.h"

namespace lockstep::transport {

/// Whether this build has NCCL. Without it `connect_nccl` throws BadInput saying so.
bool nccl_is_built();

/// NCCL's all-reduce between the GPUs of the ranks of a rendezvous, one GPU each. `data` is the
/// GPU's memory.
///
/// There is no build with NCCL yet: it needs a LibTorch that has it (ProcessGroupNCCL in c10d) and
/// a GPU to be tried on.
std::unique_ptr<Engine> connect_nccl(Rendezvous& rendezvous, int gpu);

}  // namespace lockstep::transport
