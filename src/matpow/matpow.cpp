#include "matpow/matpow.h"

#include <torch/cuda.h>

#include <algorithm>
#include <map>

#include "base/nearest.h"
#include "lockstep/error.h"
#include "lockstep/virtual_device.h"
#include "matpow/measure.h"

namespace lockstep::matpow {
namespace {

constexpr int kMostDevices = 2;

// A kind of device.
struct DeviceKind {
  /// How many of them there are, at most two.
  int (*count)();
  /// Makes so many; throws BadInput for options that they do not have.
  std::vector<c10::Device> (*make)(int count, const Options& options);
};

void refuse_virtual_options(const Options& options) {
  if (options.copy_bandwidth != 0 || options.copy_latency != 0)
    throw BadInput(
        "--copy-bandwidth, --copy-latency: only virtual devices have a model of copies; "
        "give --device virtual");
}

std::vector<c10::Device> make_cpu(int /*count*/, const Options& options) {
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

const std::map<std::string, DeviceKind>& device_kinds() {
  static const std::map<std::string, DeviceKind> kinds = {
      {"cpu", {[] { return 1; }, make_cpu}},
      {"cuda",
       {[] { return std::min(static_cast<int>(torch::cuda::device_count()), kMostDevices); },
        make_cuda}},
      {"virtual", {[] { return kMostDevices; }, make_virtual}}};
  return kinds;
}

const DeviceKind& kind_of(const std::string& name) {
  const auto found = device_kinds().find(name);
  if (found != device_kinds().end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [each, kind] : device_kinds()) names.push_back(each);
  throw BadInput("--device {}: no such kind{}; expected cpu, virtual or cuda", name,
                 did_you_mean(name, names));
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
  const DeviceKind& kind = kind_of(options.device);
  const int there_are = kind.count();
  check_counts(options, there_are);
  if (options.devices.empty())
    for (int i = 1; i <= there_are; ++i) options.devices.push_back(i);
  const int most = *std::max_element(options.devices.begin(), options.devices.end());
  return measure_on(kind.make(most, options), options);
}

}  // namespace lockstep::matpow
