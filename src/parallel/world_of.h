#pragma once

#include <memory>

#include "collective/communicator.h"
#include "lockstep/world.h"

namespace lockstep {

/// A World over an existing communicator.
World world_of(std::unique_ptr<collective::Communicator> group, int local_rank = 0);

}  // namespace lockstep
