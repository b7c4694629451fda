#pragma once

#include <cstdint>
#include <memory>
#include <set>

#include "collective/communicator.h"
#include "lockstep/world.h"

namespace lockstep {

struct World::State {
  std::unique_ptr<collective::Communicator> group;
  int local_rank;
  /// SamplerOptions::shards of all training samplers that were made for this world.
  std::set<int64_t> sampler_shards = {};
};

}  // namespace lockstep
