#include "device/random.h"

namespace lockstep {

uint64_t RandomStream::below(uint64_t bound) {
  // Skip values under 2^64 mod bound, which would make small results more likely.
  const uint64_t reject_under = (0 - bound) % bound;
  uint64_t value = next();
  while (value < reject_under) value = next();
  return value % bound;
}

}  // namespace lockstep
