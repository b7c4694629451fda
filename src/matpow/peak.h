#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace lockstep::matpow {

/// The speed of a single product by LibTorch (on the CPU: by OpenBLAS) of matrices of this size,
/// but of 512 to 4096 rows. `threads` compute on the CPU.
double measure_peak_gflops(c10::Device device, int threads, int64_t size);

}  // namespace lockstep::matpow
