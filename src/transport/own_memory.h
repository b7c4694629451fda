#pragma once

#include <cstddef>

#include "transport/transport.h"

namespace lockstep::transport {

/// Private zeroed memory, aligned to 64 bytes, large pieces to huge pages. Throws std::bad_alloc.
Memory own_memory(size_t bytes);

}  // namespace lockstep::transport
