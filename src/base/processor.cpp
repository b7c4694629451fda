#include "base/processor.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace lockstep {

#ifdef __x86_64__

namespace {

// Of the processor; that the system keeps its registers too is part of having AVX2. (Clang's
// __builtin_cpu_supports knows no f16c.)
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

bool has_wide_registers() {
  static const bool found =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  return found;
}

#else

bool has_wide_registers() {
  return false;
}

#endif

}  // namespace lockstep
