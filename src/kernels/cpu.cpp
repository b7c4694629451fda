#include "kernels/cpu.h"

namespace lockstep::kernels {

bool supported() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

}  // namespace lockstep::kernels
