#include "matpow/matpow.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/tell.h"
#include "job/trainer_library.h"

namespace lockstep::cli {
namespace {

using matpow::Phase;

struct MatpowFlags {
  matpow::Options options;
  std::string device_memory, copy_bandwidth;
  double copy_latency = 0;  ///< microseconds
  std::string trace;
  bool naive = false;
  bool json = false;
};

matpow::Options options_of(const MatpowFlags& flags) {
  matpow::Options options = flags.options;
  if (flags.naive) options.method = matpow::Method::naive;
  if (!flags.device_memory.empty()) options.device_memory = parse_bytes(flags.device_memory);
  if (!flags.copy_bandwidth.empty())
    options.copy_bandwidth = static_cast<double>(parse_bytes(flags.copy_bandwidth));
  options.copy_latency = flags.copy_latency / 1e6;
  options.tell = tell;
  return options;
}

nlohmann::ordered_json json_of(const matpow::Options& options, const matpow::Result& result,
                               const matpow::Timing& timing) {
  return {{"devices", timing.devices},
          {"device", options.device},
          {"size", options.size},
          {"power", options.power},
          {"products", result.products},
          {"seconds", timing.seconds},
          {"allocate_seconds", timing[Phase::allocate]},
          {"copy_in_seconds", timing[Phase::copy_in]},
          {"compute_seconds", timing[Phase::compute]},
          {"copy_out_seconds", timing[Phase::copy_out]},
          {"free_seconds", timing[Phase::free]},
          {"copy_seconds", timing.copy_seconds},
          {"gflops", timing.gflops},
          {"peak_gflops", result.peak_gflops},
          {"of_peak", timing.of_peak},
          {"max_error", timing.max_error},
          {"tile", timing.tile},
          {"peak_bytes", timing.peak_bytes}};
}

void print_timing(const matpow::Timing& timing) {
  fmt::print("{:>7}  {:>8.3f}", timing.devices, timing.seconds);
  for (const double seconds : timing.phase_seconds) fmt::print("  {:>8.3f}", seconds);
  fmt::print("  {:>7.1f}  {:>5.1f} %  {:>9.1e}\n", timing.gflops, 100 * timing.of_peak,
             timing.max_error);
}

void print_tiles(const matpow::Timing& timing) {
  if (timing.tile == 0) return;
  fmt::print("On {0} by tiles of {1} x {1}, with at most {2} of a device's memory in use.\n",
             plural(timing.devices, "device"), timing.tile, format_bytes(timing.peak_bytes));
}

void print(const matpow::Options& options, const matpow::Result& result) {
  fmt::print("A^{0} + B^{0} of {1} x {1} float32 matrices on {2}: {3} for each power\n",
             options.power, options.size, options.device, plural(result.products, "product"));
  fmt::print("{:>7}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {:>7}  {:>7}  {:>9}\n", "devices",
             "seconds", "allocate", "copy in", "compute", "copy out", "free", "GFLOPS", "of peak",
             "max error");
  for (const matpow::Timing& timing : result.timings) print_timing(timing);
  for (const matpow::Timing& timing : result.timings) print_tiles(timing);
  fmt::print("Peak: {:.1f} GFLOPS on each device, the fastest product that was measured.\n",
             result.peak_gflops);
  const auto [fewest, most] =
      std::ranges::minmax_element(result.timings, {}, &matpow::Timing::devices);
  if (fewest->devices < most->devices)
    fmt::print("{} are {:.2f} times as fast as {}.\n", plural(most->devices, "device"),
               fewest->seconds / most->seconds, plural(fewest->devices, "device"));
}

int run_matpow(const MatpowFlags& flags) {
  const matpow::Options options = options_of(flags);
  const matpow::Result result = job::load_trainer().get()->measure_matpow(options);
  if (!flags.trace.empty()) write_file_atomically(flags.trace, observe::chrome_trace(result.trace));
  if (!flags.json) {
    print(options, result);
    return 0;
  }
  for (const matpow::Timing& timing : result.timings)
    fmt::print("{}\n", json_of(options, result, timing).dump());
  return 0;
}

class MatpowCommand final : public Command {
 public:
  explicit MatpowCommand(CLI::App& parent)
      : Command(parent, "matpow",
                "Compute A^n + B^n on 1 device and on 2, and measure each phase") {
    matpow::Options& options = flags_.options;
    app().add_option("--size", options.size, "rows of a matrix (default 2048)")->type_name("N");
    app().add_option("--power", options.power, "n (default 10)")->type_name("N");
    app().add_flag("--naive", flags_.naive, "n - 1 products for a power, instead of squaring");
    app()
        .add_option("--device", options.device,
                    "cpu, virtual (default; two devices of one core each) or cuda")
        ->type_name("KIND");
    app()
        .add_option("--devices", options.devices,
                    "the numbers of devices to compare (default 1,2; cpu: 1)")
        ->delimiter(',')
        ->type_name("N,...");
    app()
        .add_option(
            "--device-memory", flags_.device_memory,
            "memory of a device: what does not fit is computed by tiles (default: no limit)")
        ->type_name("SIZE");
    app()
        .add_option("--copy-bandwidth", flags_.copy_bandwidth,
                    "of virtual devices: bytes per second, such as 12G (default: this machine's)")
        ->type_name("SIZE");
    app()
        .add_option("--copy-latency", flags_.copy_latency,
                    "of virtual devices: microseconds that every copy takes besides (default 0)")
        ->type_name("US");
    app().add_option("--seed", options.seed, "of the random matrices (default 0)")->type_name("N");
    app()
        .add_option("--scale", options.scale,
                    "multiply the matrices by this; above 1 their powers grow (default 1)")
        ->type_name("X");
    app()
        .add_option("--repeat", options.repeat, "report the fastest of so many runs (default 1)")
        ->type_name("K");
    app()
        .add_option("--trace", flags_.trace,
                    "write a timeline of all phases, for ui.perfetto.dev or chrome://tracing")
        ->type_name("FILE");
    app().add_flag("--json", flags_.json, "print one JSON object per number of devices");
    app().footer(
        "A phase's seconds are those in which at least one device was in it: phases overlap. "
        "GFLOPS\n"
        "count 2 N^3 per product, in all of the time. The error is relative, against\n"
        "matrix-vector products in double precision; above 1e-3 the result is an error.\n"
        "Examples:\n"
        "  lockstep matpow --size 4096 --power 10\n"
        "  lockstep matpow --size 4096 --naive\n"
        "  lockstep matpow --size 2048 --device-memory 16MiB --trace tiles.json\n"
        "  lockstep matpow --device cpu --json");
  }

  int run() override { return run_matpow(flags_); }

 private:
  MatpowFlags flags_;
};

}  // namespace

std::unique_ptr<Command> add_matpow(CLI::App& parent) {
  return std::make_unique<MatpowCommand>(parent);
}

}  // namespace lockstep::cli
