#include "base/processor.h"

#include <algorithm>
#include <cstdlib>

#include "lockstep/error.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace lockstep {
namespace {

constexpr const char* kVariable = "LOCKSTEP_INSTRUCTIONS";

struct NamedSet {
  InstructionSet set;
  const char* name;
};
constexpr NamedSet kSets[] = {{InstructionSet::portable, "portable"},
                              {InstructionSet::avx2, "avx2"},
                              {InstructionSet::avx512, "avx512"}};

}  // namespace

std::string to_string(InstructionSet set) {
  return std::ranges::find(kSets, set, &NamedSet::set)->name;
}

std::optional<InstructionSet> asked_instruction_set() {
  const char* const asked = std::getenv(kVariable);
  if (asked == nullptr || *asked == '\0') return std::nullopt;
  const InstructionSet most = widest_instruction_set();
  const auto found = std::ranges::find(kSets, std::string(asked), &NamedSet::name);
  if (found == std::end(kSets))
    throw BadInput("{}={}: must be portable, avx2 or avx512; this processor has {} at most",
                   kVariable, asked, to_string(most));
  if (found->set > most)
    throw BadInput("{}={}: this processor has {} at most", kVariable, asked, to_string(most));
  return found->set;
}

#ifdef __x86_64__

namespace {

// Of the processor; that the system keeps its registers too is part of having AVX2. (Clang's
// __builtin_cpu_supports knows no f16c.)
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

InstructionSet widest_instruction_set() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return InstructionSet::portable;
  const bool has_all = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return has_all ? InstructionSet::avx512 : InstructionSet::avx2;
}

bool has_wide_registers() {
  static const bool found = widest_instruction_set() != InstructionSet::portable && has_f16c();
  return found;
}

#else

InstructionSet widest_instruction_set() {
  return InstructionSet::portable;
}

bool has_wide_registers() {
  return false;
}

#endif

}  // namespace lockstep
