#pragma once

#include <string>

namespace lockstep::kernels {

/// Whether this processor can run the kernels: they are compiled for AVX2 and FMA, and the rules
/// that choose a kernel were measured on such processors.
bool supported();

/// Whether it also has AVX-512, and oneDNN's variable ONEDNN_MAX_CPU_ISA does not forbid it.
bool has_avx512();

/// Of the oneDNN library that is loaded: "2.7.4".
std::string onednn_version();

}  // namespace lockstep::kernels
