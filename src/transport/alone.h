#pragma once

#include <memory>

#include "transport/transport.h"

namespace lockstep::transport {

/// For a world size of 1: sends nothing and uses no resources.
std::unique_ptr<Transport> connect_alone();

}  // namespace lockstep::transport
