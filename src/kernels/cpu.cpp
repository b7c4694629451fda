#include "kernels/cpu.h"

#include <oneapi/dnnl/dnnl.h>

#include "kernels/direct_convolution.h"
#include "lockstep/error.h"

namespace lockstep::kernels {
namespace {

InstructionSet chosen() {
  const auto asked = asked_instruction_set();
  // oneDNN follows, so that it computes as on a processor that has no more.
  if (asked == InstructionSet::avx2) dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
  const InstructionSet set = asked.value_or(widest_instruction_set());
  if (set != InstructionSet::avx512 || direct_convolution_may_use_avx512()) return set;
  if (asked)
    throw BadInput("LOCKSTEP_INSTRUCTIONS={}: ONEDNN_MAX_CPU_ISA forbids it; unset one of them",
                   to_string(set));
  return InstructionSet::avx2;
}

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet set = chosen();
  return set;
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
