#include "matpow/matpow.h"

#include <fmt/ranges.h>
#include <torch/cuda.h>

#include <algorithm>

#include "base/nearest.h"
#include "device/kinds.h"
#include "lockstep/error.h"
#include "lockstep/virtual_device.h"
#include "matpow/measure.h"

namespace lockstep::matpow {
namespace {

constexpr int kMostDevices = 2;

void refuse_virtual_options(const Options& options) {
  if (options.copy_bandwidth != 0 || options.copy_latency != 0)
    throw BadInput(
        "--copy-bandwidth, --copy-latency: only virtual devices have a model of copies; "
        "give --device virtual");
}

std::vector<c10::Device> make_cpu(const Options& options) {
  refuse_virtual_options(options);
  if (options.device_memory > 0)
    throw BadInput("--device-memory: cpu has no memory of its own; give --device virtual");
  return {c10::kCPU};
}

// One core each, so that two devices compare with one.
std::vector<c10::Device> make_virtual(int count, const Options& options) {
  make_virtual_devices({.count = kMostDevices,
                        .memory_bytes = options.device_memory,
                        .mode = VirtualDeviceOptions::Mode::asynchronous,
                        .cores = 1,
                        .copy_bandwidth = options.copy_bandwidth,
                        .copy_latency = options.copy_latency});
  std::vector<c10::Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back(virtual_device(i));
  return devices;
}

std::vector<c10::Device> make_cuda(int count, const Options& options) {
  refuse_virtual_options(options);
  std::vector<c10::Device> devices;
  for (int i = 0; i < count; ++i)
    devices.emplace_back(c10::kCUDA, static_cast<c10::DeviceIndex>(i));
  return devices;
}

const DeviceKindRow& kind_of(const std::string& name) {
  if (const DeviceKindRow* const kind = device_kinds().find(name)) return *kind;
  const std::vector<std::string> names = device_kinds().names();
  throw BadInput("--device {}: no such kind of device{}; there are: {}", name,
                 did_you_mean(name, names), fmt::join(names, ", "));
}

using Count = DeviceKindRow::Count;

int count_of(const DeviceKindRow& kind) {
  switch (kind.count) {
    case Count::one_per_worker:
      return 1;
    case Count::as_asked:
      return kMostDevices;
    case Count::by_libtorch:
      break;
  }
  return std::min(static_cast<int>(torch::cuda::device_count()), kMostDevices);
}

std::vector<c10::Device> make_devices(const DeviceKindRow& kind, int count,
                                      const Options& options) {
  switch (kind.count) {
    case Count::one_per_worker:
      return make_cpu(options);
    case Count::as_asked:
      return make_virtual(count, options);
    case Count::by_libtorch:
      break;
  }
  return make_cuda(count, options);
}

void check_counts(const Options& options, int there_are) {
  if (there_are == 0)
    throw BadInput("--device {}: LibTorch finds none here; give --device virtual", options.device);
  for (const int count : options.devices) {
    if (count < 1 || count > kMostDevices)
      throw BadInput("--devices {}: expected 1 or 2, of which one computes A^n and one B^n", count);
    if (count > there_are)
      throw BadInput(
          "--devices {}: there is 1 device of the kind {}; give --devices 1, or --device "
          "virtual, which has 2",
          count, options.device);
  }
}

}  // namespace

Result measure(const Options& asked) {
  Options options = asked;
  const DeviceKindRow& kind = kind_of(options.device);
  const int there_are = count_of(kind);
  check_counts(options, there_are);
  if (options.devices.empty())
    for (int i = 1; i <= there_are; ++i) options.devices.push_back(i);
  const int most = *std::max_element(options.devices.begin(), options.devices.end());
  return measure_on(make_devices(kind, most, options), options);
}

}  // namespace lockstep::matpow
