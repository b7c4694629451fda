#include "kernels/cpu.h"

#include <oneapi/dnnl/dnnl.h>

#include "kernels/direct_convolution.h"

namespace lockstep::kernels {

bool supported() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

bool has_avx512() {
#ifdef __x86_64__
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && direct_convolution_may_use_avx512();
  return has;
#else
  return false;
#endif
}

std::string onednn_version() {
  const dnnl_version_t* const version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

}  // namespace lockstep::kernels
