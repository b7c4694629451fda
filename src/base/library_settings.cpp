#include "base/library_settings.h"

#include <cstdlib>

#include "base/processor.h"

namespace lockstep {
namespace {

// A core whose kernels need no more than these instructions.
const char* openblas_core(InstructionSet set) {
  switch (set) {
    case InstructionSet::avx512:
      return "SkylakeX";
    case InstructionSet::avx2:
      return "Haswell";
    case InstructionSet::portable:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

void set_up_libraries() {
  constexpr int kKeepIfSet = 0;
  const InstructionSet set = asked_instruction_set().value_or(widest_instruction_set());
  if (const char* const core = openblas_core(set)) setenv("OPENBLAS_CORETYPE", core, kKeepIfSet);
  setenv("UCX_MEM_MMAP_HOOK_MODE", "reloc", kKeepIfSet);
}

}  // namespace lockstep
