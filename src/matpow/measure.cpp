#include "matpow/measure.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/host.h"
#include "base/units.h"
#include "lockstep/error.h"
#include "lockstep/virtual_device.h"
#include "matpow/peak.h"
#include "matpow/program.h"
#include "matpow/reference.h"
#include "matpow/tiles.h"
#include "virtual_devices/devices.h"

namespace lockstep::matpow {
namespace {

constexpr int kSpares = 4;  // two for each power

bool is_virtual_device(c10::Device device) {
  return device.type() == virtual_devices::kType;
}

bool uses_tiles(const Options& options) {
  return std::ranges::any_of(options.devices, [&](int count) {
    return !tiles_for(options.size, count, options.device_memory).whole();
  });
}

// How many matrices are in the host's memory at once: inputs and result, with tiles the spares,
// which are there all the time, and what devices hold that are part of the host.
int64_t matrices_on_host(const std::vector<c10::Device>& devices, const Options& options) {
  const bool in_host = devices[0].is_cpu() || is_virtual_device(devices[0]);
  int64_t most_on_devices = 0;
  for (const int count : options.devices)
    if (in_host && tiles_for(options.size, count, options.device_memory).whole())
      most_on_devices = std::max(most_on_devices, count * matrices_on_device(count));
  return 3 + (uses_tiles(options) ? kSpares : 0) + most_on_devices;
}

void require_host_memory(const std::vector<c10::Device>& devices, const Options& options) {
  const int64_t available = available_memory();
  const int64_t matrices = matrices_on_host(devices, options);
  const auto most =
      static_cast<int64_t>(std::sqrt(available / (matrices * int64_t{sizeof(float)})));
  if (options.size > most)
    throw BadInput(
        "--size {}: {} matrices of {} each are more than this host's {} of available memory; at "
        "most --size {} fits",
        options.size, matrices, format_bytes(options.size * options.size * int64_t{sizeof(float)}),
        format_bytes(available), most);
}

// Of random numbers `number`: 0 for A, 1 for B, 2 for the reference's vectors.
uint64_t seed_of(const Options& options, uint64_t number) {
  constexpr uint64_t kSeeds = 3;
  return static_cast<uint64_t>(options.seed) * kSeeds + number;
}

// Uniform, so that a matrix's eigenvalues are at most about 1: its powers neither grow nor vanish.
at::Tensor random_matrix(const Options& options, uint64_t number) {
  const double bound = options.scale * std::sqrt(3.0 / static_cast<double>(options.size));
  return at::empty({options.size, options.size}, at::kFloat)
      .uniform_(-bound, bound, at::detail::createCPUGenerator(seed_of(options, number)));
}

at::Tensor pinned(const at::Tensor& matrix, c10::Device device) {
  return device.is_cpu() ? matrix : matrix.pin_memory(device);
}

class Measurement {
 public:
  Measurement(const std::vector<c10::Device>& devices, const Options& options)
      : options_(options),
        chain_(chain_of(options.power, options.method)),
        threads_(is_virtual_device(devices[0]) ? 1 : at::get_num_threads()) {
    for (const c10::Device device : devices)
      lanes_.push_back(std::make_unique<DeviceLanes>(device));
    result_.products = static_cast<int64_t>(chain_.size());
    matrices_.a = pinned(random_matrix(options, 0), devices[0]);
    matrices_.b = pinned(random_matrix(options, 1), devices[0]);
    matrices_.sum = pinned(at::empty_like(matrices_.a), devices[0]);
    if (uses_tiles(options))
      for (int i = 0; i < kSpares; ++i)
        matrices_.spares.push_back(pinned(at::empty_like(matrices_.a), devices[0]));
    reference_.emplace(matrices_.a, matrices_.b, options.power, seed_of(options, 2));
  }

  Result run() {
    measure_peak();
    for (int i = 0; i < options_.repeat; ++i)
      for (size_t which = 0; which < options_.devices.size(); ++which) {
        run_on(which);
        measure_peak();
      }
    for (Timing& timing : result_.timings)
      timing.of_peak = timing.gflops / (timing.devices * result_.peak_gflops);
    for (std::vector<observe::TraceSpan>& trace : traces_)
      result_.trace.insert(result_.trace.end(), std::make_move_iterator(trace.begin()),
                           std::make_move_iterator(trace.end()));
    return std::move(result_);
  }

 private:
  Tiles tiles_on(int devices) const {
    return tiles_for(options_.size, devices, options_.device_memory);
  }

  double gigaflop() const {
    const auto size = static_cast<double>(options_.size);
    return 2.0 * static_cast<double>(chain_.size()) * 2 * size * size * size / 1e9;
  }

  void measure_peak() {
    const c10::Device device = lanes_[0]->device;
    result_.peak_gflops = std::max(
        result_.peak_gflops, measure_peak_gflops(is_virtual_device(device) ? c10::kCPU : device,
                                                 threads_, options_.size));
  }

  void tell_if_long(int devices) const {
    constexpr double kLong = 2;
    const double seconds = gigaflop() / (devices * result_.peak_gflops);
    if (options_.tell != nullptr && seconds > kLong)
      options_.tell(fmt::format("{} products on {}, about {}", 2 * chain_.size(),
                                plural(devices, "device"), format_duration(seconds)));
  }

  void run_on(size_t which) {
    Timing timing{.devices = options_.devices[which]};
    tell_if_long(timing.devices);
    Lanes used;
    for (int i = 0; i < timing.devices; ++i) used.push_back(lanes_[static_cast<size_t>(i)].get());
    forget_peaks(used);
    compute(used, timing);
    timing.gflops = gigaflop() / timing.seconds;
    timing.peak_bytes = peak_of(used);
    std::vector<observe::TraceSpan> trace = take_times(used, timing);
    timing.max_error = reference_->error_of(matrices_.sum);
    if (!(timing.max_error <= kTolerance))
      throw Error(
          fmt::format("on {} A^{} + B^{} is wrong: it differs by {:.1e}, relative to its "
                      "largest element, from matrix-vector products in double precision "
                      "(at most {:.0e} is rounding)",
                      plural(timing.devices, "device"), options_.power, options_.power,
                      timing.max_error, kTolerance));
    keep(which, timing, std::move(trace));
  }

  void compute(const Lanes& used, Timing& timing) {
    const Tiles tiles = tiles_on(timing.devices);
    matrices_.sum.zero_();  // so that a result of an earlier one is none of this one
    const Stopwatch stopwatch;
    if (tiles.whole())
      run_whole(used, matrices_, chain_);
    else
      run_tiled(used, matrices_, chain_, tiles);
    timing.seconds = stopwatch.seconds();
    timing.tile = tiles.whole() ? 0 : tiles.edge;
  }

  static std::vector<observe::TraceSpan> take_times(const Lanes& used, Timing& timing) {
    std::vector<TimedSpan> all;
    std::vector<observe::TraceSpan> trace;
    for (DeviceLanes* each : used)
      for (Lane* lane : {&each->host, &each->copy_in, &each->compute, &each->copy_out})
        for (TimedSpan& span : lane->take_spans()) {
          trace.push_back({lane->process(), lane->track(), span.name, span.begin, span.end});
          all.push_back(std::move(span));
        }
    add_up(all, timing);
    return trace;
  }

  // The fastest counts, and the largest error of all.
  void keep(size_t which, const Timing& timing, std::vector<observe::TraceSpan> trace) {
    if (which == result_.timings.size()) {
      result_.timings.push_back(timing);
      traces_.push_back(std::move(trace));
      return;
    }
    Timing& kept = result_.timings[which];
    const double max_error = std::max(kept.max_error, timing.max_error);
    if (timing.seconds < kept.seconds) {
      kept = timing;
      traces_[which] = std::move(trace);
    }
    kept.max_error = max_error;
  }

  static void forget_peaks(const Lanes& used) {
    for (const DeviceLanes* each : used)
      if (is_virtual_device(each->device)) forget_peak_memory(each->device);
  }

  static int64_t peak_of(const Lanes& used) {
    int64_t peak = 0;
    for (const DeviceLanes* each : used)
      if (is_virtual_device(each->device)) peak = std::max(peak, memory_of(each->device).peak);
    return peak;
  }

  const Options options_;
  const std::vector<Product> chain_;
  const int threads_;  ///< of a device that is part of the host
  std::vector<std::unique_ptr<DeviceLanes>> lanes_;
  Matrices matrices_;
  std::optional<Reference> reference_;
  Result result_;
  std::vector<std::vector<observe::TraceSpan>> traces_;  ///< by number of devices
};

void check(const Options& options) {
  constexpr int64_t kLargest = 1'000'000;
  if (options.size < 1 || options.size > kLargest)
    throw BadInput("--size {}: expected 1 to {}", options.size, kLargest);
  if (options.repeat < 1) throw BadInput("--repeat {}: expected at least 1", options.repeat);
  if (options.seed < 0) throw BadInput("--seed {}: expected 0 or more", options.seed);
  if (!std::isfinite(options.scale) || options.scale <= 0)
    throw BadInput("--scale {}: expected a number above 0", options.scale);
}

}  // namespace

Result measure_on(const std::vector<c10::Device>& devices, const Options& options) {
  check(options);
  chain_of(options.power, options.method);  // refuses powers before memory is used
  require_host_memory(devices, options);
  return Measurement(devices, options).run();
}

}  // namespace lockstep::matpow
