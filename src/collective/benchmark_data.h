#pragma once

#include <cstdint>

#include "collective/communicator.h"
#include "collective/plan/collectives.h"

namespace lockstep::collective {

/// Fills a bucket so that the result is known: with small whole numbers, whose sums over up to 256
/// ranks every floating-point type holds exactly. Sums of u8 and i8 wrap around.
void fill(Buffer buffer, int rank, Operation operation);

/// How many of the elements that `rank` gets from the collective (root 0) are not as expected.
int64_t count_wrong(Collective collective, Buffer buffer, int rank, int world, Operation operation);

}  // namespace lockstep::collective
