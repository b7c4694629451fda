#pragma once

namespace lockstep::kernels {

/// Whether this processor can run the kernels: they are compiled for AVX2 and FMA, and the rules
/// that choose a kernel were measured on such processors.
bool supported();

}  // namespace lockstep::kernels
