#pragma once

#include <memory>

#include "transport/nccl/api.h"
#include "transport/transport.h"

namespace lockstep::transport::nccl {

/// What all ranks have before they connect NCCL.
struct Meeting {
  std::shared_ptr<const Library> library;
  UniqueId id;  ///< made by rank 0
};

/// Collective. Throws BadInput on all ranks if one of them has no usable NCCL, and Mismatch if they
/// have different versions.
Meeting meet(Rendezvous& rendezvous);

}  // namespace lockstep::transport::nccl
