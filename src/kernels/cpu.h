#pragma once

#include <string>

#include "base/processor.h"

namespace lockstep::kernels {

/// That whose kernels this process uses; portable: LibTorch's kernels, ours are not used. It is the
/// one that LOCKSTEP_INSTRUCTIONS names, or the widest that the processor has and
/// ONEDNN_MAX_CPU_ISA allows. Throws BadInput, as asked_instruction_set() does.
InstructionSet instruction_set();

/// Whether kernels of ours are used at all.
bool supported();
/// Whether it is avx512.
bool has_avx512();

/// Of the oneDNN library that is loaded: "2.7.4".
std::string onednn_version();

}  // namespace lockstep::kernels
