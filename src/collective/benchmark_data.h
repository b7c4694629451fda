#pragma once

#include <cstdint>

#include "collective/communicator.h"
#include "collective/plan/request.h"

namespace lockstep::collective {

/// What ranks put into a bucket so that the result is known: small whole numbers, whose sums over
/// up to 256 ranks every type holds exactly.
void fill(Buffer buffer, int rank, Operation operation);

/// How many of the elements that `rank` gets from the collective (root 0) are not what they should
/// be.
int64_t count_wrong(Collective collective, Buffer buffer, int rank, int world, Operation operation);

}  // namespace lockstep::collective
