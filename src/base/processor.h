#pragma once

#include <optional>
#include <string>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace lockstep {

/// What code is compiled for.
enum class InstructionSet {
  portable,  ///< any processor
  avx2,      ///< AVX2 and FMA
  avx512,
};

/// As LOCKSTEP_INSTRUCTIONS: "portable", "avx2", "avx512".
std::string to_string(InstructionSet set);

/// The widest that this processor has.
InstructionSet widest_instruction_set();

/// That which the environment variable LOCKSTEP_INSTRUCTIONS names, if it is set. Throws BadInput
/// if there is none of that name, or if the processor lacks it.
std::optional<InstructionSet> asked_instruction_set();

/// Loops that compute results are written once and compiled twice: for any processor, and for those
/// with wide registers. Both round alike, so that results do not depend on the processor.
#ifdef __x86_64__
#define FOR_WIDE_REGISTERS [[gnu::target("avx2,fma,f16c")]]
#else
#define FOR_WIDE_REGISTERS
#endif

/// Whether this processor may run what is compiled FOR_WIDE_REGISTERS (and differs for it).
bool has_wide_registers();

/// In a loop that waits for another thread: leaves the core's units to the other one.
inline void spin_pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace lockstep
