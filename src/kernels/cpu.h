#pragma once

#include <string>

namespace lockstep::kernels {

/// What kernels are compiled for.
enum class InstructionSet {
  portable,  ///< any processor: LibTorch's kernels, ours are not used
  avx2,      ///< AVX2 and FMA
  avx512,
};

/// That whose kernels this process uses: the widest that the processor has, or the one that the
/// environment variable LOCKSTEP_INSTRUCTIONS names. Throws BadInput if it names none of them, or
/// one that the processor lacks. (ONEDNN_MAX_CPU_ISA counts as well: below AVX-512, ours do not use
/// it either.)
InstructionSet instruction_set();
/// As LOCKSTEP_INSTRUCTIONS: "portable", "avx2", "avx512".
std::string to_string(InstructionSet set);

/// Whether kernels of ours are used at all.
bool supported();
/// Whether it is avx512.
bool has_avx512();

/// Of the oneDNN library that is loaded: "2.7.4".
std::string onednn_version();

}  // namespace lockstep::kernels
