#pragma once

#include <cstdint>

namespace lockstep::transport {

/// A TCP port of this machine that nobody listens on at the moment.
uint16_t free_port();

}  // namespace lockstep::transport
