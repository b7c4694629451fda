#include "kernels/cpu.h"

#include <oneapi/dnnl/dnnl.h>

#include <cstdlib>

#include "kernels/direct_convolution.h"
#include "lockstep/error.h"

namespace lockstep::kernels {
namespace {

constexpr const char* kVariable = "LOCKSTEP_INSTRUCTIONS";
constexpr InstructionSet kSets[] = {InstructionSet::portable, InstructionSet::avx2,
                                    InstructionSet::avx512};

InstructionSet widest() {
#ifdef __x86_64__
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return InstructionSet::portable;
  const bool has_all = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return has_all ? InstructionSet::avx512 : InstructionSet::avx2;
#else
  return InstructionSet::portable;
#endif
}

InstructionSet chosen() {
  const InstructionSet most = widest();
  const char* const asked = std::getenv(kVariable);
  if (asked == nullptr || *asked == '\0')
    return most == InstructionSet::avx512 && !direct_convolution_may_use_avx512()
               ? InstructionSet::avx2
               : most;
  for (const InstructionSet set : kSets) {
    if (to_string(set) != asked) continue;
    if (set > most)
      throw BadInput("{}={}: this processor has {} at most", kVariable, asked, to_string(most));
    // oneDNN follows, so that it computes as on a processor that has no more.
    if (set == InstructionSet::avx2) dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
    if (set == InstructionSet::avx512 && !direct_convolution_may_use_avx512())
      throw BadInput("{}={}: ONEDNN_MAX_CPU_ISA forbids it; unset one of them", kVariable, asked);
    return set;
  }
  throw BadInput("{}={}: must be portable, avx2 or avx512; this processor has {} at most",
                 kVariable, asked, to_string(most));
}

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet set = chosen();
  return set;
}

std::string to_string(InstructionSet set) {
  switch (set) {
    case InstructionSet::portable:
      return "portable";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
  }
  return "";
}

bool supported() {
  return instruction_set() != InstructionSet::portable;
}

bool has_avx512() {
  return instruction_set() == InstructionSet::avx512;
}

std::string onednn_version() {
  const dnnl_version_t* const version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

}  // namespace lockstep::kernels
