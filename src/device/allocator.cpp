#include "device/allocator.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace lockstep {

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kLargestFromHeap = 1 << 30;
  constexpr int kGrowBy = 64 << 20;
  mallopt(M_MMAP_THRESHOLD, kLargestFromHeap);
  mallopt(M_TRIM_THRESHOLD, -1);  // never return memory to the system
  mallopt(M_TOP_PAD, kGrowBy);
#endif
}

}  // namespace lockstep
