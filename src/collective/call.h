#pragma once

#include <cstdint>
#include <string>

#include "base/element.h"
#include "collective/plan/request.h"
#include "transport/transport.h"

namespace lockstep::collective {

/// What a rank says it is doing with each message, so that ranks that do different things find out.
struct Call {
  uint64_t number = 0;  ///< of the group's collectives; of messages between two ranks, theirs
  Collective collective = Collective::all_reduce;
  Algorithm algorithm = Algorithm::tree;
  Operation operation = Operation::sum;
  Type type = Type::f32;
  int64_t count = 0;
  int64_t shards = 0;
  int root = 0;
  int peer = 0;
};

/// The last word is left for rounds.
transport::Label label_of(const Call& call);

/// What a label says: "all_reduce number 7 (direct) of 1000 f32, sum over 2 shards, round 1".
std::string describe(const transport::Label& label);

}  // namespace lockstep::collective
