#pragma once

#include <memory>

#include "collective/communicator.h"
#include "lockstep/world.h"

namespace lockstep {

/// A world of workers that are connected already.
World world_of(std::unique_ptr<collective::Communicator> group, int local_rank = 0);

}  // namespace lockstep
