#pragma once

#include <memory>

#include "transport/transport.h"

namespace lockstep::transport {

/// For a world of one: carries nothing, and needs nothing of the machine.
std::unique_ptr<Transport> connect_alone();

}  // namespace lockstep::transport
