#pragma once

#include <memory>

#include "transport/shm/shm.h"
#include "transport/transport.h"

namespace lockstep::transport {

/// Uses shared memory between ranks of one host, and `between`, which connects all ranks, for other
/// messages. Collective.
std::unique_ptr<Transport> connect_hybrid(Rendezvous& rendezvous,
                                          std::unique_ptr<Transport> between,
                                          const ShmOptions& options = {});

}  // namespace lockstep::transport
