#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace lockstep::matpow {

/// The speed of LibTorch's own product of matrices, the better of two. `threads` compute on the
/// CPU.
double measure_peak_gflops(c10::Device device, int threads, int64_t size);

}  // namespace lockstep::matpow
