#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "matpow/chain.h"
#include "observe/trace.h"

namespace lockstep::matpow {

/// A^power + B^power for two random square matrices of float32, on devices.
struct Options {
  int64_t size = 2048;  ///< rows of a matrix
  int64_t power = 10;
  Method method = Method::squaring;
  std::string device = "virtual";  ///< a kind of device: cpu, virtual or cuda
  std::vector<int>
      devices;  ///< the numbers of devices to compare; empty: 1 and 2, where there are 2
  int64_t device_memory = 0;  ///< bytes of each device; 0: no limit
  double copy_bandwidth = 0;  ///< of virtual devices: see VirtualDeviceOptions
  double copy_latency = 0;
  int64_t seed = 0;
  /// The matrices are multiplied by this. With 1 their powers neither grow nor vanish.
  double scale = 1;
  int repeat = 1;  ///< the fastest of so many counts
  /// Is called with what will take more than two seconds.
  void (*tell)(const std::string& message) = nullptr;
};

/// What a device program does, in this order; phases may overlap.
enum class Phase { allocate, copy_in, compute, copy_out, free };
inline constexpr int kPhases = 5;

/// The times of one number of devices.
struct Timing {
  int devices = 0;
  double seconds = 0;  ///< from the first allocation until all is freed
  /// Seconds in which at least one device was in a phase. Copies between devices are part of
  /// copy_out.
  double phase_seconds[kPhases] = {};
  double copy_seconds = 0;  ///< the same of copies of any kind
  double gflops = 0;        ///< 2 size^3 for each product, in all of `seconds`
  double of_peak = 0;       ///< gflops, divided by those of so many devices at Result::peak_gflops
  double max_error = 0;     ///< of all runs, against matrix-vector products in double precision
  int64_t tile = 0;         ///< rows of a tile; 0: matrices were in the devices' memory as a whole
  int64_t peak_bytes = 0;   ///< of the device that used most; 0 if that is not known

  double& operator[](Phase phase) { return phase_seconds[static_cast<int>(phase)]; }
  double operator[](Phase phase) const { return phase_seconds[static_cast<int>(phase)]; }
};

struct Result {
  int64_t products = 0;    ///< for each of the two powers
  double peak_gflops = 0;  ///< the best product by LibTorch (OpenBLAS) on the cores of one device
  std::vector<Timing> timings;
  std::vector<observe::TraceSpan> trace;  ///< of the fastest run on each number of devices
};

/// Makes the devices and measures. Throws BadInput for options that cannot be, for matrices that do
/// not fit, and for powers that are not finite; Error for a wrong result.
Result measure(const Options& options);

}  // namespace lockstep::matpow
