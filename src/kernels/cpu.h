#pragma once

namespace lockstep::kernels {

/// Whether this processor runs the kernels: AVX2 and FMA, which they are compiled for and which
/// the rules about who serves a layer were measured on.
bool supported();

}  // namespace lockstep::kernels
